-- learn ends a lease, and writes down what the answer announces. ARGV: how long a lease
-- and a record last, the lease, how the request ended ('served', 'refused' or 'failed'),
-- how long all shall wait (-1: the refusal asks for no time), and the limits. The lease 0
-- and 'reported' are what a process has learnt while Redis did not answer.
local lease_for, record_for = tonumber(ARGV[1]), tonumber(ARGV[2])
local lease, ended, wait = ARGV[3], ARGV[4], tonumber(ARGV[5])
redis.call('ZREM', KEYS[2], lease)
local number, own = string.match(lease, '^(%d+)(.*)$')
number = tonumber(number)

if ended == 'failed' then
  if record.probing == number and probe > 0 then redis.call('HSET', KEYS[1], 'probe', 1) end
  return
end

-- An answer can only make limits stricter if its request was sent before a newer or a stricter
-- answer came: the server may have counted the request of that answer later. A turn by a clock
-- that has gone back since is not known to be newer.
local newer = number > learnt and (turn == 0 or number <= turn)
local refused = ended == 'refused'
local announced = ARGV[6] == '' and {} or cjson.decode(ARGV[6])

if wait < 0 then
  wait = 0
  if newer then -- half as long again each time, half of it at random
    local backoff = math.min(math.max(100, (record.backoff or 0) * 1.5), 32000)
    redis.call('HSET', KEYS[1], 'backoff', backoff)
    wait = math.floor(backoff * (1 + math.random()) / 2)
  end
end
if ended == 'served' then redis.call('HDEL', KEYS[1], 'backoff') end
if wait > 0 and (newer or not refused) and now + wait > (record['until'] or 0) then
  redis.call('HSET', KEYS[1], 'until', now + wait)
end
if newer and (refused or #announced > 0) then
  redis.call('HSET', KEYS[1], 'learnt', math.max(turn, number))
  if #announced > 0 then
    for key in pairs(limits) do redis.call('HDEL', KEYS[1], 'limit:' .. key) end
  end
elseif learnt == 0 then
  redis.call('HSET', KEYS[1], 'learnt', 1) -- it announces nothing
end
if newer and refused then
  redis.call('HSET', KEYS[1], 'probe', 1)
elseif newer then
  redis.call('HDEL', KEYS[1], 'probe')
end

-- reserved returns what requests under way take of a limit. The server has counted
-- those sent longer ago than its window lasts.
local leases = #announced > 0 and redis.call('ZRANGE', KEYS[2], 0, -1) or {}
local function reserved(limit)
  local sum, since = 0, limit.reset > 0 and micros - limit.reset * 1000 or 0
  for _, other in ipairs(leases) do
    local sent, costs = string.match(other, '^(%d+)(.*)$')
    if tonumber(sent) >= since then sum = sum + price(costs_of(costs), limit) end
  end
  return sum
end

for _, limit in ipairs(announced) do
  local known = limits[limit.key]
  local ends = limit.reset >= 0 and now + limit.reset or 0
  limit.left = limit.left - reserved(limit)
  if newer or not known and ended == 'reported' then
    save(limit.key, {
      name = limit.name, unit = limit.unit, left = limit.left, quota = limit.quota, rate = limit.rate, ends = ends,
    })
  elseif known and not (ends > 0 and ends + 1500 < known.ends) then -- not of an earlier window
    local returned = number > 0 and price(costs_of(own), limit) or 0
    known.left = left_of(known) + returned
    if limit.left < known.left then
      known.left = limit.left
      redis.call('HSET', KEYS[1], 'learnt', turn)
    end
    known.ends = math.max(known.ends, ends)
    save(limit.key, known)
  end
end
keep(record_for, lease_for)
