-- There is a pending row, or there is none any more. KEYS: pending. ARGV: conversation, is there, seconds that it is kept
local pending = KEYS[1] .. ':' .. life()
if ARGV[2] == '1' then
  redis.call('SADD', pending, ARGV[1])
  redis.call('EXPIRE', pending, ARGV[3])
else
  redis.call('SREM', pending, ARGV[1])
end
