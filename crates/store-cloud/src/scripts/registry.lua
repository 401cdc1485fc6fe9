-- Where messages lie has been decided further. KEYS: conversation. ARGV: copy of the registry
local known = redis.call('HMGET', KEYS[1], 'life', 'registry')
if known[1] == life() and is_later(ARGV[1], known[2]) then
  redis.call('HSET', KEYS[1], 'registry', ARGV[1])
end
