-- Puts letters into a node's letter box.
-- KEYS: letters, letter box. ARGV: token of the box, number of entries to keep, sender, number of the first letter, letters
-- Returns the token; when it is another one nothing was put in, and where there is no box nothing is returned.
local token = redis.call('GET', KEYS[2])
if token == ARGV[1] then
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'f', ARGV[3], 'n', ARGV[4], 'l', ARGV[5])
  redis.call('EXPIRE', KEYS[1], 60)
end
return token
