-- A node looks after its letter box: is it still the one it had, with everything in it? Otherwise a new one is put up.
-- KEYS: letters, letter box. ARGV: token of the box (empty: none yet), part of a new token, the last entry that was read
-- Returns the token.
local mine = life()
if ARGV[1] ~= '' and string.sub(ARGV[1], 1, #mine) == mine and redis.call('GET', KEYS[2]) == ARGV[1] then
  redis.call('EXPIRE', KEYS[2], 60)
  redis.call('EXPIRE', KEYS[1], 60)
  -- "The oldest to keep" is the last one read, which takes nothing away that was not.
  redis.call('XTRIM', KEYS[1], 'MINID', ARGV[3])
  return ARGV[1]
end
local token = mine .. ':' .. ARGV[2]
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], token, 'EX', 60)
return token
