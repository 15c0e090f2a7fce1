-- enter gives a request its turn, or renews its lease. ARGV: how long a lease and a
-- record last, the costs of the request, its lease if that is to be renewed, its process, 1
-- if the processes are to be counted, how long the request has waited, and how long its
-- claim lasts. It returns the lease, or '', how long to wait, 1 if nothing can shorten the
-- wait, and the number of processes, 0 if they were not counted.
local lease_for, record_for = tonumber(ARGV[1]), tonumber(ARGV[2])
if ARGV[4] ~= '' then
  redis.call('ZADD', KEYS[2], 'XX', now + lease_for, ARGV[4])
  keep(record_for, lease_for)
  return {ARGV[4], 0, 0, 0}
end

-- A process counts until a minute after it may go.
local process = ARGV[5]
local function reply(lease, wait, certain)
  local processes = 0
  if ARGV[6] == '1' then
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
    redis.call('ZADD', KEYS[3], now + wait + 60000, process)
    redis.call('PEXPIRE', KEYS[3], record_for)
    processes = redis.call('ZCARD', KEYS[3])
  end
  return {lease, wait, certain, processes}
end

local all = record['until'] or 0
if all > now then return reply('', all - now, 1) end

local costs, under = costs_of(ARGV[3]), redis.call('ZCARD', KEYS[2])

-- The claim is that of the request with costs that has waited longest. Requests that have
-- waited for less time leave what it needs.
local claim, since = record.claim, now - tonumber(ARGV[7])
if claim and (claim.process == process or claim.ends <= now or claim.since > since) then claim = nil end
local claimed_costs = claim and costs_of(claim.costs)

-- needed returns how much of a limit must be left for a request: at most what a full limit holds.
local function needed(costs, limit)
  local takes = price(costs, limit)
  return limit.quota > 0 and math.min(takes, limit.quota) or takes
end

local wait, over, taken = 0, {}, {}
for key, limit in pairs(limits) do
  local needs, left = needed(costs, limit), left_of(limit)
  local claimed = claim and needed(claimed_costs, limit) or 0
  local ends = limit.ends > 0 and limit.ends <= now
  if needs == 0 or needs + claimed <= left then
    local takes = price(costs, limit)
    if ends then limit.ends = 0 end -- nothing shows that there is less than before
    limit.left = left - takes
    if takes > 0 then taken[key] = limit end
  elseif ends and needs > left then
    over[#over + 1] = key
  else
    local until_ends = limit.ends > now and limit.ends - now or math.huge
    local until_left = limit.rate > 0 and math.ceil((needs + claimed - left) / limit.rate) or math.huge
    local this = math.min(until_ends, until_left)
    if this < math.huge then
      wait = math.max(wait, this)
    elseif under > 0 or needs <= left then
      wait = math.max(wait, 25) -- an answer will show more, or a claim ends
    else
      over[#over + 1] = key
    end
  end
end
if wait > 0 then
  if #costs > 0 and not claim then
    claim = {process = process, since = since, ends = now + tonumber(ARGV[8]), costs = ARGV[3]}
    redis.call('HSET', KEYS[1], 'claim', cjson.encode(claim))
  end
  return reply('', wait, under == 0 and not claimed_costs and 1 or 0)
end

-- Until the first answer ten requests go, or one with costs, but no longer than half a
-- second.
local few = #costs > 0 and 1 or 10
if learnt == 0 and under >= few and now < (record.first or now) + 500 then return reply('', 25, 0) end

-- When nothing shows what is left, one request goes, and a second later another.
if #over > 0 and probe == 0 then probe = 1 end
if probe > now then return reply('', math.min(probe - now, 25), 0) end

turn = math.max(micros, turn + 1)
redis.call('HSET', KEYS[1], 'turn', turn)
if not record.first then redis.call('HSET', KEYS[1], 'first', now) end
if probe > 0 then redis.call('HSET', KEYS[1], 'probe', now + 1000, 'probing', turn) end
for _, key in ipairs(over) do redis.call('HDEL', KEYS[1], 'limit:' .. key) end
for key, limit in pairs(taken) do save(key, limit) end
if record.claim and record.claim.process == process then redis.call('HDEL', KEYS[1], 'claim') end
local lease = string.format('%.0f', turn) .. ARGV[3]
redis.call('ZADD', KEYS[2], now + lease_for, lease)
keep(record_for, lease_for)
return reply(lease, 0, 0)
