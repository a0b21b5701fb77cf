// nats.js over TCP and over WebSocket against the NATS front, run by interop/run.sh. The same tests pass
// against nats-server.
'use strict'
const assert = require('assert/strict')
const { execFileSync } = require('child_process')
const fs = require('fs')
const tcp = require('@nats-io/transport-node')
const { wsconnect, credsAuthenticator, nkeyAuthenticator, headers, Empty, NoRespondersError, RequestError } = require('@nats-io/nats-core')
const WebSocket = require('ws')

const smoke = process.env.INTEROP_MODE === 'smoke'
const only = new RegExp(process.env.ONLY || '')
const state = process.env.INTEROP_STATE
const TEST_MS_MAX = 120_000
const WAIT_MS = 20_000
let failed = 0

async function run(inSmoke, name, action) {
  if ((smoke && !inSmoke) || !only.test(name)) return
  const began = Date.now()
  let timer
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error(`not done after ${TEST_MS_MAX} ms`)), TEST_MS_MAX) })
  try {
    await Promise.race([action(), late])
    console.log(`PASS nats.js: ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`)
  } catch (error) {
    failed++
    console.log(`FAIL nats.js: ${name}: ${String(error.message).split('\n').join(' ').slice(0, 400)}`)
    console.error(error)
  }
  clearTimeout(timer)
}

const said = (name, folder = state) => fs.readFileSync(`${folder}/${name}`, 'utf8').trim()
const server = (verb, folder = state, rest = [], env = {}) =>
  execFileSync(process.env.INTEROP_SERVER, [verb, folder, ...rest], { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'inherit'] })

async function withFront(kind, action) {
  const folder = `${state}/js-${kind}`
  server('start', folder, [process.env.INTEROP_TARGET], { NATS_FRONT: kind })
  try { await action(said('nats', folder), folder) } finally { server('stop', folder, ['KILL']) }
}

// A transport: how to connect, and its name. Browsers have a WebSocket; here it is that of the package ws.
const overTcp = { name: 'TCP', connect: options => tcp.connect({ servers: said('nats'), timeout: 5000, ...options }) }
const overWebSocket = compression => ({
  compression,
  name: compression ? 'WebSocket with compression' : 'WebSocket',
  connect: options => wsconnect({
    servers: `ws://${said('ws')}`, timeout: 5000, ...options,
    wsFactory: url => ({ socket: new WebSocket(url, { perMessageDeflate: compression }), encrypted: false })
  })
})

async function refused(what, action, kind) {
  let connection
  try { connection = await action() } catch (error) {
    if (kind) assert.equal(error.name, kind, `${what}: ${error}`)
    return
  }
  await connection.close()
  throw new Error(`${what}: the connection succeeded`)
}

// A subscription has only one iterator.
const iterators = new WeakMap()

// Returns the next messages of a subscription, in time.
async function take(subscription, count) {
  const out = []
  if (!iterators.has(subscription)) iterators.set(subscription, subscription[Symbol.asyncIterator]())
  const iterator = iterators.get(subscription)
  const end = Date.now() + WAIT_MS
  while (out.length < count) {
    let timer
    const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error(`${out.length} of ${count} messages`)), end - Date.now()) })
    const { value, done } = await Promise.race([iterator.next(), late]).finally(() => clearTimeout(timer))
    if (done) throw new Error(`the subscription ended after ${out.length} of ${count} messages`)
    out.push(value)
  }
  return out
}
const texts = messages => messages.map(m => m.string())

async function eventually(what, probe) {
  for (const end = Date.now() + WAIT_MS; !probe(); await new Promise(done => setTimeout(done, 10))) assert(Date.now() < end, `not in time: ${what}`)
}

// ---- messages ----

function messageTests(transport) {
  const { connect } = transport
  const id = transport.name.replace(/ /g, '')
  const test = (inSmoke, name, action) => run(inSmoke, `${transport.name}: ${name}`, action)
  const scale = smoke ? 1 : 10

  test.all = async () => {
    await test(true, 'publish and subscribe', async () => {
      const [mine, other] = [await connect(), await connect()]
      const inbox = mine.subscribe(`js.${id}.one`)
      await mine.flush()
      const payloads = ['hello', '', '\r\nPUB x 1\r\n', 'grüße', 'x'.repeat(100_000)]
      for (const payload of payloads) other.publish(`js.${id}.one`, payload)
      await other.flush()
      assert.deepEqual(texts(await take(inbox, payloads.length)), payloads)
      await mine.close(); await other.close()
    })
    await test(true, 'wildcards', async () => {
      const nc = await connect()
      const words = nc.subscribe(`js.${id}.wild.*.end`)
      const rest = nc.subscribe(`js.${id}.wild.>`)
      for (const tail of ['.a.end', '.a.b.end', '', '.b.end']) nc.publish(`js.${id}.wild${tail}`, tail)
      assert.deepEqual(texts(await take(words, 2)), ['.a.end', '.b.end'])
      assert.deepEqual(texts(await take(rest, 3)), ['.a.end', '.a.b.end', '.b.end'])
      await nc.close()
    })
    await test(true, 'queue groups', async () => {
      const members = [await connect(), await connect(), await connect()]
      const got = [0, 0, 0]
      members.forEach((nc, i) => nc.subscribe(`js.${id}.queue`, { queue: 'workers', callback: () => { got[i]++ } }))
      for (const nc of members) await nc.flush()
      const count = 300 * scale
      for (let i = 0; i < count; i++) members[0].publish(`js.${id}.queue`)
      await eventually('all messages', () => got.reduce((a, b) => a + b) >= count)
      for (const nc of members) await nc.flush()
      assert.equal(got.reduce((a, b) => a + b), count)
      assert(Math.min(...got) > count / 10, `a member was left out: ${got}`)
      for (const nc of members) await nc.close()
    })
    await test(true, 'requests, and nobody who responds', async () => {
      const [service, client] = [await connect(), await connect()]
      service.subscribe(`js.${id}.service`, { callback: (_, m) => m.respond(`answer to ${m.string()}`) })
      await service.flush()
      const numbers = Array.from({ length: 100 * scale }, (_, i) => i)
      const answers = await Promise.all(numbers.map(i => client.request(`js.${id}.service`, `${i}`, { timeout: WAIT_MS })))
      assert.deepEqual(texts(answers), numbers.map(i => `answer to ${i}`))
      await assert.rejects(client.request(`js.${id}.nobody`, Empty, { timeout: WAIT_MS }), e => e instanceof NoRespondersError || e instanceof RequestError)
      await service.close(); await client.close()
    })
    await test(true, 'headers', async () => {
      const nc = await connect()
      const inbox = nc.subscribe(`js.${id}.headers`)
      const sent = headers()
      sent.append('One', '1'); sent.append('lower', 'x'); sent.append('UPPER', 'y'); sent.append('Twice', 'first'); sent.append('Twice', 'second'); sent.append('Colon', 'a: b')
      nc.publish(`js.${id}.headers`, 'payload', { headers: sent, reply: 'answer.here' })
      const [m] = await take(inbox, 1)
      assert.deepEqual([...m.headers].sort(), [...sent].sort())
      assert.deepEqual([m.string(), m.reply], ['payload', 'answer.here'])
      await nc.close()
    })
    await test(true, 'messages of 1 MiB, and none larger', async () => {
      const nc = await connect()
      const inbox = nc.subscribe(`js.${id}.large`)
      // nats-server takes a compressed frame only if its whole content is at most max_payload.
      const payload = require('crypto').randomBytes((1 << 20) - (transport.compression ? 1000 : 0))
      for (let i = 0; i < 5; i++) {
        nc.publish(`js.${id}.large`, payload)
        if (transport.compression) await nc.flush()
      }
      for (const m of await take(inbox, 5)) assert(payload.equals(m.data), 'a payload of 1 MiB was damaged')
      assert.equal(nc.info.max_payload, 1 << 20)
      assert.throws(() => nc.publish(`js.${id}.large`, Buffer.alloc((1 << 20) + 1)))
      await nc.close()
    })
    await test(true, 'unsubscribe', async () => {
      const nc = await connect()
      const limited = nc.subscribe(`js.${id}.unsub`, { max: 3 })
      const other = nc.subscribe(`js.${id}.unsub`)
      for (let i = 0; i < 6; i++) nc.publish(`js.${id}.unsub`, `${i}`)
      const got = []
      for await (const m of limited) got.push(m.string())
      assert.deepEqual(got, ['0', '1', '2'])
      assert.equal((await take(other, 6)).length, 6)
      await nc.close()
    })
    await test(false, 'many subscriptions', async () => {
      const nc = await connect()
      const count = 20_000
      const seen = new Set()
      for (let i = 0; i < count; i++) nc.subscribe(`js.${id}.many.${i}`, { callback: (_, m) => { seen.add(m.subject) } })
      await nc.flush()
      for (let i = 0; i < count; i++) nc.publish(`js.${id}.many.${i}`)
      await eventually('a message per subscription', () => seen.size === count)
      await nc.close()
    })
    await test(true, 'order', async () => {
      const [nc, sender] = [await connect(), await connect()]
      const inbox = nc.subscribe(`js.${id}.order.*`)
      await nc.flush()
      const count = 5000 * scale
      for (let i = 0; i < count; i++) {
        sender.publish(`js.${id}.order.${i % 5}`, `${i}`)
        if (i % 1000 === 999) await sender.flush()
      }
      const got = texts(await take(inbox, count))
      assert(got.every((text, i) => text === `${i}`), 'the order was changed')
      await nc.close(); await sender.close()
    })
    await test(true, 'drain', async () => {
      const [nc, sender] = [await connect(), await connect()]
      let got = 0
      nc.subscribe(`js.${id}.drain`, { callback: () => { got++ } })
      await nc.flush()
      for (let i = 0; i < 1000; i++) sender.publish(`js.${id}.drain`)
      await sender.flush()
      await nc.drain()
      assert.equal(got, 1000)
      await sender.close()
    })
    await test(true, 'a restart of the server', async () => {
      const nc = await connect({ reconnectTimeWait: 100, maxReconnectAttempts: -1 })
      const inbox = nc.subscribe(`js.${id}.again.*`)
      nc.publish(`js.${id}.again.before`, 'before')
      const back = (async () => { for await (const s of nc.status()) if (s.type === 'reconnect') return })()
      assert.deepEqual(texts(await take(inbox, 1)), ['before'])
      server('restart')
      await back
      nc.publish(`js.${id}.again.after`, 'after')
      assert.deepEqual(texts(await take(inbox, 1)), ['after'])
      await nc.close()
    })
  }
  return test.all()
}

// ---- authentication and TLS ----

async function works(nc) {
  const inbox = nc.subscribe('js.works')
  nc.publish('js.works', 'yes')
  assert.deepEqual(texts(await take(inbox, 1)), ['yes'])
  await nc.close()
}

async function serverTests() {
  const once = { reconnect: false, maxReconnectAttempts: 0, timeout: 5000 }
  await run(true, 'user and password', () => withFront('user', async servers => {
    await works(await tcp.connect({ servers, user: 'alice', pass: 's3cret' }))
    await refused('a wrong password', () => tcp.connect({ servers, user: 'alice', pass: 'wrong', ...once }))
    await refused('nothing', () => tcp.connect({ servers, ...once }))
  }))
  await run(false, 'user and password over WebSocket', () => withFront('user', async (_, folder) => {
    const servers = `ws://${said('ws', folder)}`
    const wsFactory = url => ({ socket: new WebSocket(url), encrypted: false })
    await works(await wsconnect({ servers, user: 'alice', pass: 's3cret', wsFactory }))
    await refused('a wrong password', () => wsconnect({ servers, user: 'alice', pass: 'wrong', wsFactory, ...once }))
  }))
  await run(false, 'token', () => withFront('token', async servers => {
    await works(await tcp.connect({ servers, token: 'open-sesame' }))
    await refused('a wrong token', () => tcp.connect({ servers, token: 'open-barley', ...once }))
  }))
  await run(true, 'nkey', () => withFront('nkey', async (servers, folder) => {
    await works(await tcp.connect({ servers, authenticator: nkeyAuthenticator(new TextEncoder().encode(said('seed', folder))) }))
    await refused('no key', () => tcp.connect({ servers, ...once }))
  }))
  await run(true, 'credentials files', () => withFront('creds', async (servers, folder) => {
    const file = name => ({ servers, authenticator: credsAuthenticator(fs.readFileSync(`${folder}/${name}.creds`)) })
    await works(await tcp.connect(file('good')))
    const scoped = await tcp.connect(file('scoped'))
    const inside = scoped.subscribe('scoped.x')
    scoped.publish('scoped.x', 'yes')
    assert.deepEqual(texts(await take(inside, 1)), ['yes'])
    const told = []
    ;(async () => { for await (const event of scoped.status()) told.push(String(event.error)) })()
    scoped.publish('other.x', 'no')
    await scoped.flush()
    await eventually("the scope's refusal", () => told.some(text => text.includes('Permissions Violation for Publish to "other.x"')))
    await scoped.close()
    for (const name of ['revoked', 'expired', 'stranger', 'forged']) await refused(name, () => tcp.connect({ ...file(name), ...once }), 'AuthorizationError')
    await refused('no claims', () => tcp.connect({ servers, ...once }), 'AuthorizationError')
    await refused('a password', () => tcp.connect({ servers, user: 'alice', pass: 's3cret', ...once }), 'AuthorizationError')
  }))
  await run(true, 'TLS', () => withFront('tls', async (servers, folder) => {
    await works(await tcp.connect({ servers, tls: { caFile: `${folder}/ca.pem` } }))
    await refused('an authority that the client does not know', () => tcp.connect({ servers, tls: {}, ...once }))
  }))
  await run(false, "TLS with a client's certificate", () => withFront('tls-verify', async (servers, folder) => {
    const tls = { caFile: `${folder}/ca.pem`, certFile: `${folder}/client.pem`, keyFile: `${folder}/client.key` }
    await works(await tcp.connect({ servers, tls }))
    await refused('no certificate', () => tcp.connect({ servers, tls: { caFile: `${folder}/ca.pem` }, ...once }))
  }))
  await run(false, 'TLS before the INFO', () => withFront('tls-first', async (servers, folder) => {
    await works(await tcp.connect({ servers, tls: { caFile: `${folder}/ca.pem`, handshakeFirst: true } }))
  }))
}

async function main() {
  await messageTests(overTcp)
  await messageTests(overWebSocket(false))
  if (!smoke) await messageTests(overWebSocket(true))
  await serverTests()
  process.exit(failed ? 1 : 0)
}
main()
