-- What is known of a conversation. KEYS: conversation
local known = redis.call('HMGET', KEYS[1], 'life', 'reserved', 'settled', 'members')
if known[1] ~= life() then
  return false
end
return { known[2], known[3], known[4] }
