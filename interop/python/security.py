"""Logins and rules with the Kafka clients of Python, against the server of interop/security.sh.

alice (SCRAM-SHA-256, PLAIN, OAUTHBEARER) and anna (SCRAM-SHA-512) may produce to and consume from `orders` with
groups `alice-*`. bob (SCRAM-SHA-512, PLAIN) may do nothing. With OAUTHBEARER the password is a token.
"""
import asyncio, logging, os, sys, time, uuid

import aiokafka, aiokafka.abc, aiokafka.errors
import confluent_kafka as ck
from confluent_kafka.admin import (AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType, ScramCredentialInfo, ScramMechanism,
                                   UserScramCredentialUpsertion)
import kafka, kafka.errors
from kafka.net.sasl.oauth import AbstractTokenProvider

import harness
import tokens
from harness import BOOTSTRAP, Failure, check, raises, run, same

logging.disable()

FOLDER = os.environ["SECURITY_FOLDER"]
ALICE = [("SCRAM-SHA-256", "alice", "alice-secret"), ("PLAIN", "alice", "alice-secret")]
ANNA = [("SCRAM-SHA-512", "anna", "anna-secret")]
BOB = [("SCRAM-SHA-512", "bob", "bob-secret"), ("PLAIN", "bob", "bob-secret")]
ADMIN = ("SCRAM-SHA-512", "admin", "admin-secret")


def confluent(mechanism, user, password, **more):
    if mechanism == "OAUTHBEARER":
        secret = {"oauth_cb": lambda _: (password, time.time() + 3600)}
    else:
        secret = {"sasl.username": user, "sasl.password": password}
    return {"bootstrap.servers": BOOTSTRAP, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "log_level": 0, **secret, **more}


def python(mechanism, user, password, provider=AbstractTokenProvider):
    if mechanism == "OAUTHBEARER":
        secret = {"sasl_oauth_token_provider": provider_of(provider, password)}
    else:
        secret = {"sasl_plain_username": user, "sasl_plain_password": password}
    return {"bootstrap_servers": BOOTSTRAP, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, **secret}


def provider_of(base, text):
    """A provider of one token, as kafka-python (a method) or aiokafka (a coroutine) asks for it."""
    class Provider(base):
        def token(self):
            return text

    class Coroutine(base):
        async def token(self):
            return text
    return Provider() if base is AbstractTokenProvider else Coroutine()


def aio_login(login):
    return python(*login, provider=aiokafka.abc.AbstractTokenProvider)


def guess(login):
    """The same user with a wrong password, or with a token for another service."""
    mechanism, user, _ = login
    return mechanism, user, tokens.token(FOLDER, user, aud="another service") if mechanism == "OAUTHBEARER" else "a guess"


def add_anna():
    """Makes a user of SCRAM-SHA-512 alone, with alice's rights."""
    admin = AdminClient(confluent(*ADMIN))

    def rule(kind, name, pattern, operation):
        return AclBinding(kind, name, pattern, "User:anna", "*", operation, AclPermissionType.ALLOW)
    made = [admin.alter_user_scram_credentials([UserScramCredentialUpsertion("anna", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"anna-secret")]),
            admin.create_acls([rule(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, AclOperation.READ), rule(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, AclOperation.WRITE),
                               rule(ResourceType.GROUP, "alice-", ResourcePatternType.PREFIXED, AclOperation.READ)])]
    for futures in made:
        for future in futures.values():
            future.result(15)


def confluent_produce(login, topic, value):
    outcome = []
    producer = ck.Producer(confluent(*login, **{"message.timeout.ms": 10000}))
    producer.produce(topic, value, on_delivery=lambda error, _: outcome.append(error))
    producer.flush(15)
    check(outcome, "no outcome")
    if outcome[0] is not None:
        raise Failure(outcome[0].name())


def confluent_consume(login, topic, group, value):
    consumer = ck.Consumer(confluent(*login, **{"group.id": group, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    try:
        end = time.time() + 20
        while time.time() < end:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error():
                raise Failure(message.error().name())
            if message.value() == value:
                return
        raise Failure("the record did not come")
    finally:
        consumer.close()


def confluent_kafka(login):
    value = uuid.uuid4().hex.encode()
    confluent_produce(login, "orders", value)
    confluent_consume(login, "orders", f"alice-{uuid.uuid4().hex}", value)
    raises("TOPIC_AUTHORIZATION_FAILED", lambda: confluent_produce(login, "secrets", value), "another topic")
    raises("GROUP_AUTHORIZATION_FAILED", lambda: confluent_consume(login, "orders", "bobs", value), "another group")


def confluent_refused(login):
    raises("AUTHORIZATION_FAILED", lambda: confluent_produce(login, "orders", b"x"), "a topic without rights")
    admin = AdminClient(confluent(*login))
    same(sorted(admin.list_topics(timeout=10).topics), [], "topics that are seen")


def confluent_wrong(login):
    errors = []
    producer = ck.Producer(confluent(*guess(login), error_cb=lambda error: errors.append(error.name())))
    end = time.time() + 15
    while time.time() < end and "_AUTHENTICATION" not in errors:
        producer.poll(0.2)
    check("_AUTHENTICATION" in errors, f"no authentication error: {errors}")


def kafka_python(login):
    value = uuid.uuid4().hex.encode()
    producer = kafka.KafkaProducer(**python(*login))
    producer.send("orders", value).get(15)
    raises("TopicAuthorizationFailed", lambda: producer.send("secrets", value).get(15), "another topic")
    producer.close()
    consumer = kafka.KafkaConsumer("orders", group_id=f"alice-{uuid.uuid4().hex}", auto_offset_reset="earliest",
                                   consumer_timeout_ms=15000, **python(*login))
    check(any(record.value == value for record in consumer), "the record did not come")
    consumer.close()


def kafka_python_wrong(login):
    more = {"max_block_ms": 4000, "bootstrap_timeout_ms": 4000}
    raises(kafka.errors.KafkaError, lambda: kafka.KafkaProducer(**more, **python(*guess(login))).send("orders", b"x").get(10), "a wrong password")


def aio(login):
    async def scene():
        value = uuid.uuid4().hex.encode()
        producer = aiokafka.AIOKafkaProducer(**aio_login(login))
        await producer.start()
        try:
            await producer.send_and_wait("orders", value)
            try:
                await producer.send_and_wait("secrets", value)
                raise Failure("another topic: no error")
            except aiokafka.errors.TopicAuthorizationFailedError:
                pass
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer("orders", group_id=f"alice-{uuid.uuid4().hex}", auto_offset_reset="earliest", **aio_login(login))
        await consumer.start()
        try:
            async with asyncio.timeout(15):
                async for record in consumer:
                    if record.value == value:
                        return
        finally:
            await consumer.stop()

    asyncio.run(scene())


def aio_wrong(login):
    async def scene():
        producer = aiokafka.AIOKafkaProducer(**aio_login(guess(login)))
        try:
            await producer.start()
            # Beside Kafka it takes a refused token for a login, and its requests are not answered.
            await asyncio.wait_for(producer.send_and_wait("orders", b"x"), 5)
        except (aiokafka.errors.KafkaError, asyncio.TimeoutError):
            return
        finally:
            await producer.stop()
        raise Failure("a wrong password: no error")

    asyncio.run(scene())


def until_cut():
    """Produces as alice until the server no longer lets it. Succeeds if that happens within 10 s."""
    errors = []
    producer = ck.Producer(confluent(*ALICE[0], error_cb=lambda error: errors.append(error.name())))
    began = time.time()
    told = False
    while time.time() - began < 20:
        producer.produce("orders", b"x")
        producer.flush(1)
        producer.poll(0.1)
        if not told and not errors:
            print("works", flush=True)
            told = True
        if "_AUTHENTICATION" in errors:
            return 0
    print(f"still works, errors {errors}")
    return 1


if "--until-cut" in sys.argv:
    sys.exit(until_cut())
ALL = [*ALICE, *ANNA, ("OAUTHBEARER", "alice", tokens.token(FOLDER, "alice"))]
run("confluent-kafka makes a user of SCRAM-SHA-512", add_anna)
for login in ALL:
    run(f"confluent-kafka with {login[0]}", confluent_kafka, login)
    run(f"kafka-python with {login[0]}", kafka_python, login)
    run(f"aiokafka with {login[0]}", aio, login)
for login in BOB:
    run(f"confluent-kafka without rights, {login[0]}", confluent_refused, login)
# A wrong login takes seconds, because the server delays its answer.
for login in ALL if os.environ.get("SECURITY_MODE") == "full" else ALICE:
    run(f"confluent-kafka with a wrong secret, {login[0]}", confluent_wrong, login)
    run(f"kafka-python with a wrong secret, {login[0]}", kafka_python_wrong, login)
    run(f"aiokafka with a wrong secret, {login[0]}", aio_wrong, login)
sys.exit(1 if harness.failed else 0)
