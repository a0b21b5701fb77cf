// kafkajs as a client of interop/python/security_clients.py. A line of standard input is a scene, its words
// separated by tabs; the answer is a line, "ok" or "error NAME text".
const fs = require('fs')
const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const SCENE_MS_MAX = 20_000
const say = line => fs.writeSync(1, line + '\n')
const sleep = ms => new Promise(done => setTimeout(done, ms))

function sasl(s) {
  if (!s.mechanism) return undefined
  if (s.mechanism === 'OAUTHBEARER') return { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: s.token }) }
  return { mechanism: s.mechanism.toLowerCase(), username: s.user, password: s.password }
}

const client = s => new Kafka({
  brokers: [s.bootstrap], logLevel: logLevel.NOTHING, sasl: sasl(s), retry: { initialRetryTime: 50, retries: 2 }, reauthenticationThreshold: 1000,
  ssl: s.ca && { ca: fs.readFileSync(s.ca), cert: s.cert && fs.readFileSync(s.cert), key: s.cert && fs.readFileSync(s.key) },
})

// Kafka's name of an error. kafkajs has a class of its own for refused logins.
function name(error) {
  for (let e = error; e; e = e.cause ?? e.originalError) {
    if (e.type && e.type !== 'UNKNOWN') return e.type
    if (e.name === 'KafkaJSSASLAuthenticationError') return 'SASL_AUTHENTICATION_FAILED'
  }
  return 'OTHER'
}
const text = error => `${error.name} ${error.message}`.split(/\s+/).join(' ').slice(0, 300)

async function withProducer(s, more, work) {
  const producer = client(s).producer(more)
  await producer.connect()
  try { return await work(producer) } finally { await producer.disconnect() }
}

const send = (to, s, value) => to.send({ topic: s.topic, messages: [{ value }], timeout: 5000 })
const produce = s => withProducer(s, {}, producer => send(producer, s, s.value))
const transact = s => withProducer(s, { transactionalId: s.id, idempotent: true, maxInFlightRequests: 1 }, async producer => {
  const transaction = await producer.transaction()
  await send(transaction, s, s.value)
  await transaction.commit()
})

async function consume(s) {
  const consumer = client(s).consumer({ groupId: s.group, maxWaitTimeInMs: 200, retry: { retries: 0 } })
  await consumer.connect()
  let timer
  try {
    await new Promise((done, fail) => {
      timer = setTimeout(() => fail(new Error('the record did not come')), SCENE_MS_MAX)
      consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error))
      consumer.subscribe({ topics: [s.topic], fromBeginning: true })
        .then(() => consumer.run({ eachMessage: async ({ message }) => { if (String(message.value) === s.value) done() } })).catch(fail)
    })
  } finally { clearTimeout(timer); await consumer.disconnect() }
}

async function hold(s) {
  let count = 0
  try {
    await withProducer(s, {}, async producer => {
      for (const end = Date.now() + s.seconds * 1000; Date.now() < end; await sleep(50)) {
        await send(producer, s, 'x')
        if (++count === 1) say('works')
      }
    })
    return String(count)
  } catch (error) { error.message = `${count} ${error.message}`; throw error }
}

const scenes = { produce, consume, transact, hold }
async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const s = Object.fromEntries(line.split('\t').map(word => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]))
    await scenes[s.do](s).then(more => say(`ok ${more ?? ''}`.trim()), error => say(`error ${name(error)} ${text(error)}`))
  }
  process.exit(0)
}
main()
