-- A node lives. KEYS: nodes, since when they are noted. ARGV: node, milliseconds after which a silent one is dead
-- Returns whether they have been noted for long enough to be all of them, then who lives.
local mine = life()
local now = now_ms()
local since = redis.call('HMGET', KEYS[2], 'life', 'at')
if since[1] ~= mine then
  -- Another server, another clock.
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[2], 'life', mine, 'at', now)
  since[2] = now
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[2]))
redis.call('EXPIRE', KEYS[1], 60)
redis.call('EXPIRE', KEYS[2], 60)
local answer = redis.call('ZRANGE', KEYS[1], 0, -1)
table.insert(answer, 1, now - since[2] >= tonumber(ARGV[2]) and '1' or '0')
return answer
