//! What Redis does in one step.

use std::sync::LazyLock;

use ::redis::Script;

/// What several scripts need: the fields of an entry, and whether this consumer still has it.
macro_rules! script {
    ($code:literal) => {
        LazyLock::new(|| {
            Script::new(concat!(
                "
                local stream, group, consumer = KEYS[1], 'adieu', ARGV[1]
                local function millis()
                    local time = redis.call('TIME')
                    return time[1] * 1000 + math.floor(time[2] / 1000)
                end
                local function fields(entry)
                    local job = { payload = '', attempts = 0 }
                    for i = 1, #entry, 2 do job[entry[i]] = entry[i + 1] end
                    return job.payload, tonumber(job.attempts) or 0
                end
                -- How often the entry was delivered, if it is this consumer's.
                local function deliveries(id)
                    local found = redis.call('XPENDING', stream, group, id, id, 1, consumer)
                    return found[1] and found[1][4]
                end
                -- A receipt is the entry and the number of the delivery: a consumer may have claimed from itself an
                -- entry whose lease was over, and what it says of the first time is not said of the second.
                local function held(receipt)
                    local id, number = string.match(receipt, '^(.+)/(%d+)$')
                    local found = deliveries(id)
                    return found == tonumber(number) and id, found
                end
                local function take_away(...)
                    redis.call('XACK', stream, group, ...)
                    redis.call('XDEL', stream, ...)
                end
                -- The payload, the attempts and the name of an entry that is this consumer's, which is taken away.
                local function withdraw(receipt)
                    local id, number = held(receipt)
                    if not id then return nil end
                    local found = redis.call('XRANGE', stream, id, id)
                    take_away(id)
                    if not found[1] then return nil end
                    local payload, attempts = fields(found[1][2])
                    return payload, attempts + number, id
                end
                ",
                $code
            ))
        })
    };
}

// What is due joins the stream; then new entries, and now and then those whose lease is over. If there is nothing:
// how long until there may be, and the last entry, to wait for the next one.
pub(super) static FETCH: LazyLock<Script> = script!(
    "
    local most, lease, claim = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
    local later = KEYS[2]
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', later, '-inf', millis(), 'LIMIT', 0, 1000)) do
        local job = cmsgpack.unpack(member)
        redis.call('XADD', stream, '*', 'payload', job[2], 'attempts', job[3])
        redis.call('ZREM', later, member)
    end
    local jobs = {}
    local read = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', most, 'STREAMS', stream, '>')
    if read then
        for _, entry in ipairs(read[1][2]) do
            local payload, attempts = fields(entry[2])
            jobs[#jobs + 1] = { entry[1], payload, attempts + 1, 1 }
        end
    end
    if claim or #jobs == 0 then
        local cursor = '0-0'
        repeat
            if #jobs >= most then break end
            local found = redis.call('XAUTOCLAIM', stream, group, consumer, lease, cursor, 'COUNT', most - #jobs)
            cursor = found[1]
            for _, entry in ipairs(found[2]) do
                local payload, attempts = fields(entry[2])
                local number = deliveries(entry[1])
                jobs[#jobs + 1] = { entry[1], payload, attempts + number, number }
            end
        until cursor == '0-0'
    end
    if #jobs > 0 then return { jobs, -1, '' } end
    local wait = -1
    if redis.call('XPENDING', stream, group)[1] > 0 then wait = lease end
    local due = redis.call('ZRANGE', later, 0, 0, 'WITHSCORES')
    if due[2] then
        local left = math.max(1, tonumber(due[2]) - millis())
        if wait < 0 or left < wait then wait = left end
    end
    local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)
    return { jobs, wait, last[1] and last[1][1] or '0-0' }
    "
);

// Says of each whether it was still this consumer's.
pub(super) static ACK: LazyLock<Script> = script!(
    "
    local answers, mine = {}, {}
    for i = 2, #ARGV do
        local id = held(ARGV[i])
        answers[i - 1] = id and 1 or 0
        if id then mine[#mine + 1] = id end
    end
    if #mine > 0 then take_away(unpack(mine)) end
    return answers
    "
);

pub(super) static EXTEND: LazyLock<Script> = script!(
    "
    for i = 2, #ARGV do
        local id = held(ARGV[i])
        -- Without the entries it does not count as a delivery.
        if id then redis.call('XCLAIM', stream, group, consumer, 0, id, 'JUSTID') end
    end
    return 1
    "
);

pub(super) static GIVE_BACK: LazyLock<Script> = script!(
    "
    for i = 2, #ARGV do
        local payload, attempts = withdraw(ARGV[i])
        if payload then redis.call('XADD', stream, '*', 'payload', payload, 'attempts', attempts - 1) end
    end
    return 1
    "
);

pub(super) static RETRY: LazyLock<Script> = script!(
    "
    local after, uncounted = tonumber(ARGV[3]), tonumber(ARGV[4])
    local payload, attempts, id = withdraw(ARGV[2])
    if not payload then return 0 end
    redis.call('ZADD', KEYS[2], millis() + after, cmsgpack.pack({ id, payload, attempts - uncounted }))
    return 1
    "
);

pub(super) static BURY: LazyLock<Script> = script!(
    "
    local payload, attempts, id = withdraw(ARGV[2])
    if not payload then return 0 end
    redis.call('XADD', KEYS[2], '*', 'payload', payload, 'attempts', attempts, 'reason', ARGV[3], 'id', id)
    return 1
    "
);

// Consumers of processes that are long gone, and hold nothing. One that is alive comes back with its next fetch.
pub(super) static TIDY: LazyLock<Script> = script!(
    "
    for _, found in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
        local info = {}
        for i = 1, #found, 2 do info[found[i]] = found[i + 1] end
        if info.pending == 0 and (info.name == consumer or info.idle > 3600000) then
            redis.call('XGROUP', 'DELCONSUMER', stream, group, info.name)
        end
    end
    return 1
    "
);
