-- The members have changed. KEYS: conversation. ARGV: version
local known = redis.call('HMGET', KEYS[1], 'life', 'members')
if known[1] == life() and tonumber(known[2]) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'members', ARGV[1])
end
