-- Moves a conversation up in one inbox, and says where the user is and whether there is a pending row.
-- KEYS: routes, inbox, pending. ARGV: conversation, moment (empty: nothing is moved), seconds that an inbox is kept
local mine = life()
local nodes = {}
local routes = redis.call('HGETALL', KEYS[1])
if #routes > 0 then
  local now = tonumber(redis.call('TIME')[1])
  for i = 1, #routes, 2 do
    if tonumber(routes[i + 1]) > now then
      nodes[#nodes + 1] = routes[i]
    end
  end
end

if ARGV[2] ~= '' then
  local inbox = KEYS[2] .. ':' .. mine
  local there = redis.call('ZSCORE', inbox, ARGV[1])
  local shelf = there and math.floor((there + SHELF / 2) / SHELF) or 1
  local score = shelf * SHELF - ARGV[2]
  if not there or score < tonumber(there) then
    redis.call('ZADD', inbox, score, ARGV[1])
  end
  if redis.call('TTL', inbox) < ARGV[3] / 2 then
    redis.call('EXPIRE', inbox, ARGV[3])
  end
end
return { redis.call('SISMEMBER', KEYS[3] .. ':' .. mine, ARGV[1]), nodes }
