-- Where each of some users has written last. KEYS: conversation, who sent where last. ARGV: users
if redis.call('HGET', KEYS[1], 'life') ~= life() then
  return false
end
return redis.call('HMGET', KEYS[2], unpack(ARGV))
