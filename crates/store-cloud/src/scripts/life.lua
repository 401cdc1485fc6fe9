-- Stands before every script. The life of the data on this server: a failover or a restart begins another one, and what
-- belongs to an earlier life may lack its latest writes.
local function life()
  local info = redis.call('INFO', 'replication')
  local _, before = string.find(info, 'master_replid:', 1, true)
  return string.sub(info, before + 1, before + 16)
end

-- Of two copies of a row of the registry (`epoch:version:...`), where there may be no second one.
local function is_later(copy, there)
  if not there then
    return true
  end
  local epoch, version = string.match(copy, '^(%d+):(%d+)')
  local epoch_there, version_there = string.match(there, '^(%d+):(%d+)')
  if epoch ~= epoch_there then
    return tonumber(epoch) > tonumber(epoch_there)
  end
  return tonumber(version) > tonumber(version_there)
end

local DAY_MS = 86400000

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Shelves of an inbox lie this far apart in one sorted set; within a shelf the score is the negative time.
local SHELF = 35184372088832
