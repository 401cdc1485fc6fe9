-- Everything in an inbox, in one or several parts; the last one makes it complete.
-- KEYS: inbox
-- ARGV: is the first part, is the last part, name of the filling, seconds that an inbox is kept, then (conversation,
--       shelf, moment) of each
-- Returns 0 when an earlier part has been lost since.
local inbox = KEYS[1] .. ':' .. life()
local filling = 'filling:' .. ARGV[3]
if ARGV[1] == '1' then
  redis.call('ZADD', inbox, '+inf', filling)
elseif not redis.call('ZSCORE', inbox, filling) then
  return 0
end
for i = 5, #ARGV, 3 do
  local moment = tonumber(ARGV[i + 2])
  local there = redis.call('ZSCORE', inbox, ARGV[i])
  if there then
    local shelf = math.floor((there + SHELF / 2) / SHELF)
    moment = math.max(moment, shelf * SHELF - there)
  end
  redis.call('ZADD', inbox, ARGV[i + 1] * SHELF - moment, ARGV[i])
end
if ARGV[2] == '1' then
  redis.call('ZREM', inbox, filling)
  redis.call('ZADD', inbox, '+inf', 'complete')
end
redis.call('EXPIRE', inbox, ARGV[4])
return 1
