// One member of a group in a process of its own, so that it can be killed: node member.js key=value... Its
// options and its output are the same for every client in every language: see python/groups.py, which starts
// it.
const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const options = Object.fromEntries(process.argv.slice(2).map(word => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]))
const kafka = new Kafka({ brokers: [options.bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 60 } })
let stopped
const stopping = new Promise(resolve => { stopped = resolve })
process.stdin.on('data', () => {}).on('end', stopped).resume()
// One write per line, and at once: lines printed before a kill must arrive.
const say = (...words) => fs.writeSync(1, `${((performance.timeOrigin + performance.now()) / 1000).toFixed(6)} ${words.join(' ')}\n`)

async function consumer(eachBatch, isolation) {
  const c = kafka.consumer({ groupId: options.group, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTimeInMs: 200, rebalanceTimeout: 20_000, readUncommitted: isolation === 'read_uncommitted' })
  let owned = []
  const revoked = () => { if (owned.length) say('revoked', ...owned); owned = [] }
  c.on(c.events.GROUP_JOIN, ({ payload }) => {
    revoked()
    owned = payload.memberAssignment[options.topic] ?? []
    say('assigned', ...owned)
  })
  c.on(c.events.REBALANCING, revoked)
  c.on(c.events.CRASH, ({ payload }) => { if (!payload.restart) { say('error', payload.error); process.exit(3) } else say('note', payload.error) })
  await c.connect()
  await c.subscribe({ topics: [options.topic], fromBeginning: true })
  await c.run({ autoCommit: false, eachBatch })
  return c
}

async function consume() {
  const c = await consumer(async ({ batch, heartbeat, resolveOffset, isRunning, isStale }) => {
    for (let at = 0; at < batch.messages.length && isRunning() && !isStale(); at += 100) {
      const part = batch.messages.slice(at, at + 100)
      let first = null, last = null
      for (const m of part) {
        const offset = Number(m.offset)
        if (first !== null && offset !== last + 1) { say('got', batch.partition, first, last); first = null }
        first ??= offset
        last = offset
      }
      say('got', batch.partition, first, last)
      await c.commitOffsets([{ topic: options.topic, partition: batch.partition, offset: String(last + 1) }])
      resolveOffset(String(last))
      say('committed', batch.partition, last + 1)
      await heartbeat()
    }
  }, 'read_uncommitted')
  await stopping
  await c.disconnect()
}

const transactional = () => kafka.producer({ transactionalId: options.txn, maxInFlightRequests: 1, idempotent: true, transactionTimeout: 10_000 })

async function copy() {
  const producer = transactional()
  await producer.connect()
  let turn = 0
  const work = async ({ batch, heartbeat }) => {
    const send = (txn, prefix) => txn.send({ topic: options.out, messages: batch.messages.map(m => ({ value: prefix + m.value, partition: batch.partition })) })
    if (++turn % 5 === 0) {
      const txn = await producer.transaction()
      await send(txn, 'aborted ')
      await txn.abort()
    }
    const txn = await producer.transaction()
    await send(txn, 'copy of ')
    await txn.sendOffsets({ consumerGroupId: options.group, topics: [{ topic: options.topic, partitions: [{ partition: batch.partition, offset: String(Number(batch.lastOffset()) + 1) }] }] })
    await txn.commit()
    say('copied', batch.messages.length)
    await heartbeat()
  }
  // If the end of a transaction failed, only a new start settles its outcome.
  const c = await consumer(args => work(args).catch(error => { say('error', error); process.exit(3) }), 'read_committed')
  say('ready')
  await stopping
  await c.disconnect()
  await producer.disconnect()
}

async function fence() {
  const begin = async value => {
    const producer = transactional()
    await producer.connect()
    const txn = await producer.transaction()
    await txn.send({ topic: options.out, messages: [{ value, partition: 0 }] })
    return txn
  }
  const first = await begin('of the first')
  const second = await begin('of the second')
  await second.commit()
  await first.commit().then(() => say('error the first producer committed'), error => say(/epoch|fenced/i.test(`${error.type} ${error.message}`) ? 'fenced' : 'error', error.type, error.message))
}

const roles = { consume, copy, fence }
roles[options.role]().then(() => { say('left'); process.exit(0) }, error => { say('error', error); process.exit(3) })
