-- Puts a conversation into a place of an inbox, or takes it out.
-- KEYS: inbox. ARGV: conversation, shelf (empty: out), moment, seconds that an inbox is kept
local inbox = KEYS[1] .. ':' .. life()
if ARGV[2] == '' then
  redis.call('ZREM', inbox, ARGV[1])
else
  redis.call('ZADD', inbox, ARGV[2] * SHELF - ARGV[3], ARGV[1])
  redis.call('EXPIRE', inbox, ARGV[4])
end
