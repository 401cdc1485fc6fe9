-- A user is connected to a node. KEYS: routes. ARGV: node, seconds after which that is forgotten
local now = tonumber(redis.call('TIME')[1])
local routes = redis.call('HGETALL', KEYS[1])
for i = 1, #routes, 2 do
  if tonumber(routes[i + 1]) <= now then
    redis.call('HDEL', KEYS[1], routes[i])
  end
end
redis.call('HSET', KEYS[1], ARGV[1], now + ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[2])
