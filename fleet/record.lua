-- Both scripts begin with this part. KEYS[1] is the record, a hash. KEYS[2] has the
-- leases, a sorted set: a request under way, and when its lease ends. README.md
-- describes both. Times are in milliseconds, and Redis' own.
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)

local record, limits = {}, {}
local pairsOfRecord = redis.call('HGETALL', KEYS[1])
for i = 1, #pairsOfRecord, 2 do
  local field, value = pairsOfRecord[i], pairsOfRecord[i + 1]
  if string.sub(field, 1, 6) == 'limit:' then
    limits[string.sub(field, 7)] = cjson.decode(value)
  elseif field == 'claim' then
    record.claim = cjson.decode(value)
  else
    record[field] = tonumber(value)
  end
end
local turn, learnt, probe = record.turn or 0, record.learnt or 0, record.probe or 0

-- price returns what a request with these costs takes of a limit, as ratelimit.Cost
-- defines it.
local function price(costs, limit)
  local name, unit = limit.name, limit.unit
  local named, of_unit
  for _, cost in ipairs(costs) do
    if cost.policy == name and (cost.unit == '' or cost.unit == unit) then
      named = (named or 0) + cost.units
    elseif cost.policy == '' and cost.unit == unit then
      of_unit = (of_unit or 0) + cost.units
    end
  end
  return named or of_unit or (unit == 'requests' and 1 or 0)
end

-- costs_of returns the costs of a request, as an argument or a lease contains them.
local function costs_of(text)
  return text == '' and {} or cjson.decode(text)
end

-- left_of returns how many units of a limit are left.
local function left_of(limit)
  local left = limit.left + limit.rate * (now - limit.at)
  if limit.rate > 0 and limit.quota > 0 then left = math.min(left, limit.quota) end
  return left
end

local function save(key, limit)
  limit.at = now
  redis.call('HSET', KEYS[1], 'limit:' .. key, cjson.encode(limit))
end

-- keep sets when the record and the leases expire if they are not used again.
local function keep(record_for, leases_for)
  redis.call('PEXPIRE', KEYS[1], record_for)
  redis.call('PEXPIRE', KEYS[2], leases_for)
end

-- The clock goes back if another Redis takes over, or if somebody sets it. Times of the record
-- then lie in the future. They are forgotten, and one request goes, whose answer shows more.
if turn > micros + 1000000 then
  turn, learnt, probe = micros, math.min(learnt, micros), 1
  record['until'], record.first, record.claim = nil, nil, nil
  redis.call('HSET', KEYS[1], 'turn', turn, 'learnt', learnt, 'probe', probe)
  redis.call('HDEL', KEYS[1], 'until', 'first', 'claim')
  redis.call('DEL', KEYS[2], KEYS[3])
  for key, limit in pairs(limits) do
    limit.ends = limit.rate > 0 and 0 or math.min(limit.ends, 1)
    save(key, limit)
  end
end
