-- The next place of a conversation for an id, or the one it had before.
-- KEYS: conversation, who sent where last, conversations of the shard with recent places
-- ARGV: id, sender, now, place to be replaced (0: none), settled, name of the conversation, days of the window, seconds
--       that the conversation is kept, version of the registry that the asker has
local known = redis.call('HMGET', KEYS[1], 'life', 'ids', 'settled', 'last_at', 'members', 'seeded_at', 'seeded_head',
  'registry')
if known[1] ~= life() then
  return false
end
-- Days follow the latest of all clocks, so that no node looks past a day that another has begun.
local last_at = math.max(tonumber(ARGV[3]), tonumber(known[4]))
local settled = math.max(tonumber(ARGV[5]), tonumber(known[3]))
local today = math.floor(last_at / DAY_MS)
local bucket = KEYS[1] .. ':' .. known[2] .. ':'

local seq, day
for past = 0, tonumber(ARGV[7]) do
  day = today - past
  seq = redis.call('HGET', bucket .. day, ARGV[1])
  if seq then
    break
  end
end

local kept = seq and seq ~= ARGV[4]
local first_of_the_day = false
if not kept then
  if seq and day ~= today then
    redis.call('HDEL', bucket .. day, ARGV[1])
  end
  seq = redis.call('HINCRBY', KEYS[1], 'reserved', 1)
  redis.call('HSET', bucket .. today, ARGV[1], seq)
  first_of_the_day = redis.call('HLEN', bucket .. today) == 1
end
seq = tonumber(seq)

redis.call('HSET', KEYS[1], 'last_at', last_at, 'settled', settled)
local sent = redis.call('HGET', KEYS[2], ARGV[2])
if not sent or tonumber(sent) < seq then
  redis.call('HSET', KEYS[2], ARGV[2], seq)
end
if first_of_the_day or not sent then
  redis.call('EXPIRE', KEYS[1], ARGV[8])
  redis.call('EXPIRE', KEYS[2], ARGV[8])
end
-- Ids outlive the conversation, so that one that is known has all its ids.
if first_of_the_day then
  redis.call('EXPIRE', bucket .. today, ARGV[8] + DAY_MS / 1000)
end

redis.call('ZADD', KEYS[3], ARGV[3], ARGV[6])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. string.format('%.0f', ARGV[3] - 600000))
local registry = known[8]
if registry and tonumber(string.match(registry, '^%d+:(%d+)')) <= tonumber(ARGV[9]) then
  registry = false
end
local seeded_at, seeded_ago = tonumber(known[6] or 0), -1
if seeded_at > 0 then
  seeded_ago = math.max(0, now_ms() - seeded_at)
end
return { seq, kept and 1 or 0, last_at, known[5], settled, seeded_ago, known[7] or 0, registry }
