// The kafkajs suite, run by interop/run.sh with the environment that server.sh needs.
//
// kafkajs has no manual assignment for its consumer, and this suite uses no consumer groups. So reading goes
// through the cluster and broker objects below its public consumer: the same Fetch code and decoders, without
// a coordinator.
'use strict'
const assert = require('assert/strict')
const { execFileSync } = require('child_process')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const snappy = require('snappy')
const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')

const smoke = process.env.INTEROP_MODE === 'smoke'
const only = new RegExp(process.env.ONLY || '')
// Kafka acknowledges a creation before the partitions have their leaders. tailrace must not need this
// patience.
const leadersLate = process.env.INTEROP_TARGET === 'kafka'
// For topics that tests make. There are as many nodes.
const REPLICAS = Number(process.env.INTEROP_REPLICAS || 1)
const TEST_MS_MAX = 120_000
let failed = 0

const sleep = ms => new Promise(done => setTimeout(done, ms))

async function run(inSmoke, name, action) {
  if ((smoke && !inSmoke) || !only.test(name)) return
  const began = Date.now()
  let timer
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error(`not done after ${TEST_MS_MAX} ms`)), TEST_MS_MAX) })
  try {
    await Promise.race([action(), late])
    console.log(`PASS kafkajs: ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`)
  } catch (error) {
    failed++
    console.log(`FAIL kafkajs: ${name}: ${String(error.message).split('\n').join(' ').slice(0, 400)}`)
    console.error(error)
  }
  clearTimeout(timer)
}

// ---- codecs: kafkajs itself supports only gzip ----

const XERIAL = Buffer.from([130, 83, 78, 65, 80, 80, 89, 0])
function unsnappy(buffer) {
  if (!buffer.subarray(0, 8).equals(XERIAL)) return snappy.uncompressSync(buffer, { asBuffer: true })
  const out = []
  for (let at = 16; at < buffer.length;) {
    const size = buffer.readInt32BE(at)
    out.push(snappy.uncompressSync(buffer.subarray(at + 4, at + 4 + size), { asBuffer: true }))
    at += 4 + size
  }
  return Buffer.concat(out)
}
const codec = (compress, decompress) => () => ({ compress: async encoder => Buffer.from(compress(encoder.buffer)), decompress: async buffer => Buffer.from(decompress(buffer)) })
CompressionCodecs[CompressionTypes.Snappy] = codec(b => snappy.compressSync(b), unsnappy)
CompressionCodecs[CompressionTypes.LZ4] = codec(b => lz4.compressFrameSync(b), b => lz4.decompressFrameSync(b))
CompressionCodecs[CompressionTypes.ZSTD] = codec(b => zstd.compress(b), b => zstd.decompress(b))

// ---- clients ----

const kafka = new Kafka({ clientId: 'interop', brokers: [process.env.BOOTSTRAP], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100, maxRetryTime: 2000, retries: 30 } })
const strict = new Kafka({ clientId: 'interop', brokers: [process.env.BOOTSTRAP], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50, retries: 2 } })
const admin = strict.admin()

const topicName = purpose => `kafkajs-${purpose}-${Math.floor(Math.random() * 2 ** 32).toString(16)}`

async function create(purpose, partitions = 1, configs = {}) {
  const topic = topicName(purpose)
  await admin.createTopics({ waitForLeaders: false, topics: [{ topic, numPartitions: partitions, replicationFactor: REPLICAS, configEntries: Object.entries(configs).map(([name, value]) => ({ name, value })) }] })
  return known(topic)
}

// Metadata may lag behind a creation.
async function known(topic) {
  for (let i = 0; ; i++) {
    const probe = leadersLate ? admin.fetchTopicOffsets(topic) : admin.fetchTopicMetadata({ topics: [topic] })
    const found = await probe.catch(error => { if (i >= 100) throw error })
    if (found) return topic
    await sleep(50)
  }
}

async function withProducer(options, action) {
  const producer = kafka.producer({ allowAutoTopicCreation: false, ...options })
  await producer.connect()
  try { return await action(producer) } finally { await producer.disconnect() }
}

const produce = (topic, messages, send = {}, options = {}) => withProducer(options, p => p.send({ topic, messages, ...send }))

class Reader {
  static async open(topic, { isolationLevel = 1, maxWaitTime = 500 } = {}) {
    const symbol = Object.getOwnPropertySymbols(kafka).find(s => String(s).includes('createCluster'))
    const reader = new Reader()
    Object.assign(reader, { topic, maxWaitTime, isolationLevel, next: new Map() })
    reader.cluster = kafka[symbol]({ metadataMaxAge: 300_000, allowAutoTopicCreation: false, maxInFlightRequests: null, instrumentationEmitter: null, isolationLevel })
    await reader.cluster.connect()
    await reader.cluster.addTargetTopic(topic)
    return reader
  }
  // Sends one fetch to each leader, for all of its partitions. Messages are [{partition, offset, key, value,
  // headers, timestamp}].
  async fetch(partitions = [0]) {
    const leaders = Object.entries(this.cluster.findLeaderForPartitions(this.topic, partitions))
    return (await Promise.all(leaders.map(([leader, led]) => this.fetchFrom(leader, led)))).flat()
  }
  async fetchFrom(leader, partitions) {
    const broker = await this.cluster.findBroker({ nodeId: leader })
    const { responses } = await broker.fetch({
      maxWaitTime: this.maxWaitTime, minBytes: 1, maxBytes: 50 << 20, isolationLevel: this.isolationLevel,
      topics: [{ topic: this.topic, partitions: partitions.map(partition => ({ partition, fetchOffset: String(this.next.get(partition) ?? 0), maxBytes: 10 << 20 })) }]
    })
    const out = []
    for (const p of responses[0].partitions) {
      for (const m of p.messages) {
        if (Number(m.offset) < (this.next.get(p.partition) ?? 0)) continue // a batch may start earlier
        out.push({ ...m, partition: p.partition })
        this.next.set(p.partition, Number(m.offset) + 1)
      }
    }
    return out
  }
  async read(count, partitions = [0]) {
    const out = []
    for (const end = Date.now() + 60_000; out.length < count;) {
      assert.ok(Date.now() < end, `only ${out.length} of ${count} records within a minute`)
      out.push(...await this.fetch(partitions))
    }
    return out
  }
  close() { return this.cluster.disconnect() }
}

async function read(topic, count, partitions = [0], options = {}) {
  const reader = await Reader.open(topic, options)
  try { return await reader.read(count, partitions) } finally { await reader.close() }
}

function payload(seed, size) {
  const out = Buffer.alloc(size)
  let x = seed * 2654435761 + 1 >>> 0
  for (let i = 0; i < size; i++) {
    x = Math.imul(x, 1664525) + 1013904223 >>> 0
    out[i] = i % 64 < 32 ? 'stream flume weir sluice river  '.charCodeAt(i % 32) : x >>> 24
  }
  return out
}

const bytes = x => (x === null || x === undefined ? null : Buffer.from(x))
function sameRecords(got, want) {
  assert.equal(got.length, want.length, 'count')
  got.forEach((g, i) => {
    assert.equal(Number(g.offset), i, 'offset')
    assert.ok(bytes(g.key)?.equals(bytes(want[i].key) ?? Buffer.from('no')) ?? bytes(want[i].key) === null, `key of record ${i}`)
    assert.ok(bytes(g.value)?.equals(bytes(want[i].value) ?? Buffer.from('no')) ?? bytes(want[i].value) === null, `value of record ${i}`)
    if (want[i].timestamp) assert.equal(g.timestamp, want[i].timestamp, `timestamp of record ${i}`)
    for (const [name, value] of Object.entries(want[i].headers ?? {})) {
      const values = [].concat(g.headers[name]).map(bytes)
      assert.deepEqual(values, [].concat(value).map(bytes), `header ${name} of record ${i}`)
    }
  })
}
const numbered = count => Array.from({ length: count }, (_, i) => ({ value: String(i), partition: 0 }))
const rejects = async (promise, type) => {
  const error = await promise.then(() => null, e => e)
  assert.ok(error, `no error, wanted ${type}`)
  const all = [error, error.cause, ...(error.errors ?? []), ...(error.cause?.errors ?? [])].filter(Boolean).map(e => `${e.type} ${e.name} ${e.message}`).join('; ')
  assert.ok(all.includes(type), `wanted ${type}, got ${all}`)
}

// ---- tests ----

async function codecs() {
  const all = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD }
  for (const [name, compression] of Object.entries(all)) {
    await run(true, `codec ${name}`, async () => {
      const topic = await create('codec')
      const want = []
      for (const size of [1, 0, 7, 100, 1000, 5000, 60_000]) {
        for (let i = 0; i < 10; i++) want.push({ key: `k${i}`, value: payload(want.length, size), partition: 0, headers: { h: String(i) }, timestamp: String(1_700_000_000_000 + want.length) })
      }
      await produce(topic, want, { compression })
      sameRecords(await read(topic, want.length), want)
    })
  }
}

async function records() {
  await run(true, 'record sizes from 1 B to 1 MiB', async () => {
    const topic = await create('sizes', 1, { 'max.message.bytes': '3000000' })
    const want = [1, 2, 10, 100, 1000, 10_000, 100_000, 1_000_000, (1 << 20) - 1, 1 << 20].map(n => ({ value: payload(n, n), partition: 0 }))
    for (const message of want) await produce(topic, [message])
    sameRecords(await read(topic, want.length), want)
  })
  await run(true, 'null and empty keys and values, headers', async () => {
    const topic = await create('nulls')
    const want = [{ key: 'k', value: null }, { key: null, value: 'v' }, { key: '', value: '' }, { key: null, value: '' }, { value: null },
      { value: 'v', headers: { one: '1', empty: '', twice: ['a', 'b'], binary: Buffer.from([0, 255, 128]), 'grüße': 'wörld' } }].map(m => ({ ...m, partition: 0 }))
    await produce(topic, want)
    sameRecords(await read(topic, want.length), want)
  })
  await run(true, 'LogAppendTime topic', async () => {
    const topic = await create('append-time', 1, { 'message.timestamp.type': 'LogAppendTime' })
    const before = Date.now()
    const [sent] = await produce(topic, [{ value: 'v', partition: 0, timestamp: '1500000000000' }])
    assert.ok(Number(sent.logAppendTime) >= before - 1, `acknowledged ${sent.logAppendTime}`)
    const [got] = await read(topic, 1)
    assert.ok(Number(got.timestamp) >= before - 1, `timestamp ${got.timestamp}`)
  })
  for (const acks of [0, 1, -1]) {
    await run(acks === 0, `acks ${acks}`, async () => {
      const topic = await create('acks')
      await produce(topic, numbered(200), { acks })
      sameRecords(await read(topic, 200), numbered(200))
    })
  }
  await run(true, 'idempotent producer', async () => {
    const topic = await create('idempotent')
    await withProducer({ idempotent: true, maxInFlightRequests: 1 }, async p => {
      for (let i = 0; i < 50; i++) await p.send({ topic, acks: -1, messages: [{ value: String(i), partition: 0 }] })
    })
    sameRecords(await read(topic, 50), numbered(50))
  })
  await run(true, 'keys over partitions', async () => {
    const topic = await create('keys', 5)
    const keys = Array.from({ length: 40 }, (_, i) => `key-${i}`)
    await produce(topic, keys.map(key => ({ key, value: key })))
    await produce(topic, keys.map(key => ({ key, value: key })))
    const seen = new Map()
    for (const m of await read(topic, 80, [0, 1, 2, 3, 4])) {
      assert.equal(m.partition, seen.get(String(m.key)) ?? m.partition, `partition of ${m.key}`)
      seen.set(String(m.key), m.partition)
    }
    assert.equal(seen.size, 40)
    assert.equal(new Set(seen.values()).size, 5, 'partitions used')
  })
  await run(true, 'errors: too large, unknown partition and topic', async () => {
    const topic = await create('errors', 1, { 'max.message.bytes': '10000' })
    await rejects(produce(topic, [{ value: payload(1, 20_000) }]), 'MESSAGE_TOO_LARGE')
    const producer = strict.producer({ allowAutoTopicCreation: false, retry: { retries: 1 } })
    await producer.connect()
    await rejects(producer.send({ topic: topicName('unknown'), messages: [{ value: 'v' }] }), 'UNKNOWN_TOPIC_OR_PARTITION')
    await producer.disconnect()
    await produce(topic, [{ value: payload(1, 9_000) }])
  })
  await run(true, 'automatic topic creation', async () => {
    const topic = topicName('auto')
    await produce(topic, numbered(3), {}, { allowAutoTopicCreation: true })
    sameRecords(await read(topic, 3), numbered(3))
  })
  await run(true, 'long poll', async () => {
    const topic = await create('long-poll')
    const reader = await Reader.open(topic, { maxWaitTime: 20_000 })
    const events = []
    const waiting = reader.read(1).then(got => events.push(String(got[0].value)))
    await sleep(1000) // nothing may arrive in this time: the reader waits at the server
    events.push('sends')
    const sent = Date.now()
    await produce(topic, [{ value: 'v', partition: 0 }])
    await waiting
    assert.deepEqual(events, ['sends', 'v'])
    assert.ok(Date.now() - sent < 10_000, 'the record came only at the end of the maximum wait')
    await reader.close()
  })
  await run(false, 'several partitions, some idle', async () => {
    const topic = await create('idle', 6)
    const reader = await Reader.open(topic)
    const all = [0, 1, 2, 3, 4, 5]
    for (const active of [[0, 3], [3], [5, 0], all]) {
      await produce(topic, active.map(partition => ({ partition, value: String(partition) })))
      assert.deepEqual((await reader.read(active.length, all)).map(m => m.partition).sort(), [...active].sort())
    }
    await reader.close()
  })
  await run(true, 'read while writing', async () => {
    const topic = await create('writing')
    const writing = withProducer({}, async p => { for (let i = 0; i < 40; i++) await p.send({ topic, messages: numbered(2000).slice(i * 50, i * 50 + 50) }) })
    sameRecords(await read(topic, 2000), numbered(2000))
    await writing
  })
  await run(false, 'server restarts', async () => {
    const topic = await create('restart')
    await withProducer({}, async p => {
      await p.send({ topic, messages: numbered(200).slice(0, 100) })
      execFileSync(process.env.INTEROP_SERVER, ['restart', process.env.INTEROP_STATE, 'TERM'], { stdio: 'ignore' })
      await p.send({ topic, messages: numbered(200).slice(100) })
    })
    sameRecords(await read(topic, 200), numbered(200))
    // The admin client gives up sooner, so let it reconnect before the next test.
    for (let i = 0; i < 20; i++) if (await admin.listTopics().then(() => true, () => sleep(200))) break
  })
}

async function admins() {
  await run(true, 'create, list, describe and delete topics', async () => {
    const topic = topicName('admin')
    const topics = [{ topic, numPartitions: 3, replicationFactor: REPLICAS }]
    assert.equal(await admin.createTopics({ waitForLeaders: false, validateOnly: true, topics }), true)
    assert.ok(!(await admin.listTopics()).includes(topic), 'validation made the topic')
    assert.equal(await admin.createTopics({ waitForLeaders: false, topics }), true)
    await known(topic)
    assert.equal(await admin.createTopics({ topics }), false, 'created twice')
    const metadata = await admin.fetchTopicMetadata({ topics: [topic] })
    assert.deepEqual(metadata.topics[0].partitions.map(p => p.partitionId).sort(), [0, 1, 2])
    await admin.deleteTopics({ topics: [topic] })
    for (let i = 0; (await admin.listTopics()).includes(topic); i++) {
      assert.ok(i < 100, 'deleted, but still listed')
      await sleep(50)
    }
    await rejects(admin.deleteTopics({ topics: [topic] }), 'UNKNOWN_TOPIC_OR_PARTITION')
  })
  await run(true, 'create topic errors', async () => {
    const attempt = topic => admin.createTopics({ waitForLeaders: false, topics: [{ numPartitions: 1, replicationFactor: REPLICAS, ...topic }] })
    await rejects(attempt({ topic: 'a/b' }), 'INVALID_TOPIC_EXCEPTION')
    await rejects(attempt({ topic: topicName('p'), numPartitions: 0 }), 'INVALID_PARTITIONS')
    await rejects(attempt({ topic: topicName('r'), replicationFactor: REPLICAS + 1 }), 'INVALID_REPLICATION_FACTOR')
    await rejects(attempt({ topic: topicName('c'), configEntries: [{ name: 'retention.ms', value: 'soon' }] }), 'INVALID_CONFIG')
  })
  await run(true, 'create partitions', async () => {
    const topic = await create('partitions')
    await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
    await produce(topic, [{ value: 'v', partition: 3 }])
    await rejects(admin.createPartitions({ topicPartitions: [{ topic, count: 2 }] }), 'INVALID_PARTITIONS')
  })
  await run(true, 'configs', async () => {
    const topic = await create('configs', 1, { 'retention.ms': '1234567' })
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
    const value = async name => (await admin.describeConfigs({ includeSynonyms: true, resources: [resource] })).resources[0].configEntries.find(e => e.configName === name)?.configValue
    assert.equal(await value('retention.ms'), '1234567')
    await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'flush.ms', value: '77' }] }] })
    assert.equal(await value('flush.ms'), '77')
    assert.equal(await value('retention.ms'), '604800000', 'the old call replaces all')
    await rejects(admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'flush.ms', value: 'x' }] }] }), 'INVALID_CONFIG')
  })
  await run(true, 'offsets and delete records', async () => {
    const topic = await create('offsets')
    await produce(topic, numbered(20).map((m, i) => ({ ...m, timestamp: String(1_700_000_000_000 + i) })))
    assert.deepEqual(await admin.fetchTopicOffsets(topic), [{ partition: 0, offset: '20', high: '20', low: '0' }])
    assert.deepEqual(await admin.fetchTopicOffsetsByTimestamp(topic, 1_700_000_000_007), [{ partition: 0, offset: '7' }])
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '5' }] })
    assert.equal((await admin.fetchTopicOffsets(topic))[0].low, '5')
  })
  await run(true, 'cluster', async () => {
    const { brokers, controller, clusterId } = await admin.describeCluster()
    assert.equal(brokers.length, REPLICAS)
    assert.ok(brokers.some(b => b.nodeId === controller))
    assert.ok(clusterId)
  })
}

async function main() {
  await zstd.init()
  await admin.connect()
  await codecs()
  await records()
  await admins()
  await admin.disconnect()
  process.exit(failed ? 1 : 0)
}
main().catch(error => { console.error(error); process.exit(2) })
