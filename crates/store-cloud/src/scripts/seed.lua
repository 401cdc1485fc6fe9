-- Tells what the tables say, in one or several parts; the last one makes it valid.
-- KEYS: conversation, who sent where last
-- ARGV: is the first part, is the last part, name of the set of ids (with the first part a new one, or empty when ids are
--       only added to those that are there; then the one that the first part returned), head, settled, last_at, members' version, days of the window, seconds that the
--       conversation is kept, milliseconds since the tables were read (-1: nobody was writing), copy of the registry (empty: none), number of
--       ids, then (id, seq, moment) of each, then (user, seq) of each
-- Returns the name of the set of ids, or nothing when the first part has been lost since or there is none to add to.
local mine = life()
local known = redis.call('HMGET', KEYS[1], 'life', 'ids', 'reserved', 'settled', 'last_at', 'members', 'registry')
local ids = known[2]
local last_at = math.max(tonumber(ARGV[6]), tonumber(known[5] or ARGV[6]))
local today = math.floor(last_at / DAY_MS)
local days, keep_seconds = tonumber(ARGV[8]), tonumber(ARGV[9])

local function bucket(day)
  return KEYS[1] .. ':' .. ids .. ':' .. day
end

local is_new = known[1] ~= mine and known[1] ~= '~' .. mine
if is_new and ARGV[3] == '' then
  return false
elseif ARGV[1] == '1' and is_new then
  if ids then
    for past = 0, days + 1 do
      redis.call('UNLINK', bucket(today - past))
    end
  end
  redis.call('DEL', KEYS[1], KEYS[2])
  ids, known = ARGV[3], {}
  last_at = tonumber(ARGV[6])
  today = math.floor(last_at / DAY_MS)
  -- By the clock of this server: those of the nodes may differ.
  local read_at = tonumber(ARGV[10]) < 0 and 0 or now_ms() - tonumber(ARGV[10])
  redis.call('HSET', KEYS[1], 'life', '~' .. mine, 'ids', ids, 'seeded_at', string.format('%.0f', read_at),
    'seeded_head', ARGV[5])
elseif ARGV[1] ~= '1' and (is_new or ids ~= ARGV[3]) then
  return false
end

local count = tonumber(ARGV[12])
local names, by_day = {}, {}
for i = 13, 12 + 3 * count, 3 do
  names[#names + 1] = ARGV[i]
  local day = math.min(today, math.floor(tonumber(ARGV[i + 2]) / DAY_MS))
  local pairs_of_day = by_day[day] or {}
  by_day[day] = pairs_of_day
  pairs_of_day[#pairs_of_day + 1] = ARGV[i]
  pairs_of_day[#pairs_of_day + 1] = ARGV[i + 1]
end
-- The tables are right about an id that was put down elsewhere here.
if not is_new and count > 0 then
  for past = 0, days do
    redis.call('HDEL', bucket(today - past), unpack(names))
  end
end
for day, pairs_of_day in pairs(by_day) do
  redis.call('HSET', bucket(day), unpack(pairs_of_day))
  redis.call('EXPIRE', bucket(day), keep_seconds + DAY_MS / 1000)
end
for i = 13 + 3 * count, #ARGV, 2 do
  local sent = redis.call('HGET', KEYS[2], ARGV[i])
  if not sent or tonumber(sent) < tonumber(ARGV[i + 1]) then
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  end
end

if ARGV[2] == '1' then
  local function larger(place, there)
    return math.max(tonumber(ARGV[place]), tonumber(there or ARGV[place]))
  end
  redis.call('HSET', KEYS[1], 'life', mine, 'reserved', larger(4, known[3]), 'settled', larger(5, known[4]),
    'last_at', last_at, 'members', larger(7, known[6]))
  if ARGV[11] ~= '' and is_later(ARGV[11], known[7]) then
    redis.call('HSET', KEYS[1], 'registry', ARGV[11])
  end
end
redis.call('EXPIRE', KEYS[1], keep_seconds)
redis.call('EXPIRE', KEYS[2], keep_seconds)
return ids
