-- The first places behind a cursor, with their scores; nothing when the index is not complete.
-- KEYS: inbox
-- ARGV: first shelf, last shelf, limit, seconds that an inbox is kept, and where there is a cursor its shelf, moment and
--       conversation
local inbox = KEYS[1] .. ':' .. life()
if not redis.call('ZSCORE', inbox, 'complete') then
  return false
end
if redis.call('TTL', inbox) < ARGV[4] / 2 then
  redis.call('EXPIRE', inbox, ARGV[4])
end

local function score_text(score)
  return string.format('%.0f', score)
end

-- By bytes: Lua itself compares as the server's locale does.
local function is_behind(one, other)
  for i = 1, #one do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then
      return a > b
    end
  end
  return false
end

local first = redis.call('ZCOUNT', inbox, '-inf', '(' .. score_text((ARGV[1] - 0.5) * SHELF))
if ARGV[5] then
  local cursor = score_text(ARGV[5] * SHELF - ARGV[6])
  local low = redis.call('ZCOUNT', inbox, '-inf', '(' .. cursor)
  local high = redis.call('ZCOUNT', inbox, '-inf', cursor)
  -- Of those with the same moment, which can be thousands: the first whose id is behind.
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_behind(redis.call('ZRANGE', inbox, middle, middle)[1], ARGV[7]) then
      high = middle
    else
      low = middle + 1
    end
  end
  first = math.max(first, low)
end
local behind = redis.call('ZCOUNT', inbox, '-inf', '(' .. score_text((ARGV[2] + 0.5) * SHELF))
local last = math.min(behind, first + ARGV[3]) - 1
if last < first then
  return {}
end
return redis.call('ZRANGE', inbox, first, last, 'WITHSCORES')
