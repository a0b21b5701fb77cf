package tailrace.interop;

import static tailrace.interop.Check.*;

import io.nats.client.*;
import io.nats.client.impl.Headers;
import io.nats.client.impl.NatsMessage;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;

/** Messages, subscriptions, requests. */
final class NatsTests {
    static final Duration WAIT = Duration.ofSeconds(20);
    static final String STATE = System.getenv("INTEROP_STATE");

    static void all() {
        int scale = SMOKE ? 1 : 10;
        run(true, "publish and subscribe", NatsTests::publishAndSubscribe);
        run(true, "wildcards", NatsTests::wildcards);
        run(true, "queue groups", () -> queueGroups(500 * scale));
        run(true, "requests", () -> requests(200 * scale));
        run(true, "nobody responds", NatsTests::noResponders);
        run(true, "headers", NatsTests::headers);
        run(true, "messages of 1 MiB, and none larger", NatsTests::large);
        run(true, "unsubscribe", NatsTests::unsubscribe);
        run(true, "many subscriptions", () -> manySubscriptions(2000 * scale));
        run(true, "order between two connections", () -> inOrder(10_000 * scale));
        run(true, "drain", NatsTests::drain);
        run(true, "a restart of the server", NatsTests::reconnect);
    }

    /** A file that server.sh wrote into a server's state folder. */
    static String said(String state, String name) throws Exception {
        return Files.readString(Path.of(state, name)).trim();
    }

    /** Options for a server that is up, without patience for one that is not. */
    static Options.Builder options(String url) {
        return new Options.Builder().server(url).connectionTimeout(Duration.ofSeconds(5)).maxReconnects(0).errorListener(new ErrorListener() {});
    }

    static Connection connect() throws Exception {
        return Nats.connect(options("nats://" + said(STATE, "nats")).build());
    }

    static byte[] bytes(String text) { return text.getBytes(StandardCharsets.UTF_8); }
    static String text(Message m) { return new String(m.getData(), StandardCharsets.UTF_8); }

    static Message next(Subscription s) throws Exception {
        Message m = s.nextMessage(WAIT);
        that(m != null, "no message on " + s.getSubject());
        return m;
    }

    static void publishAndSubscribe() throws Exception {
        try (Connection mine = connect(); Connection other = connect()) {
            Subscription s = mine.subscribe("java.simple.one");
            mine.flush(WAIT);
            for (String payload : List.of("hello", "", "\r\nPUB x 1\r\n", "grüße", "x".repeat(100_000))) {
                other.publish("java.simple.one", bytes(payload));
                same(text(next(s)), payload, "payload");
            }
        }
    }

    static void wildcards() throws Exception {
        try (Connection nc = connect()) {
            Subscription words = nc.subscribe("java.wild.*.end"), rest = nc.subscribe("java.wild.>");
            for (String tail : List.of(".a.end", ".a.b.end", "", ".b.end")) nc.publish("java.wild" + tail, null);
            for (String want : List.of(".a.end", ".b.end")) same(next(words).getSubject(), "java.wild" + want, "*");
            for (String want : List.of(".a.end", ".a.b.end", ".b.end")) same(next(rest).getSubject(), "java.wild" + want, ">");
        }
    }

    static void queueGroups(int count) throws Exception {
        AtomicInteger[] got = {new AtomicInteger(), new AtomicInteger(), new AtomicInteger()};
        List<Connection> members = new ArrayList<>();
        for (AtomicInteger mine : got) {
            Connection nc = connect();
            members.add(nc);
            nc.createDispatcher(m -> mine.incrementAndGet()).subscribe("java.queue", "workers");
            nc.flush(WAIT);
        }
        for (int i = 0; i < count; i++) members.get(0).publish("java.queue", bytes("work"));
        eventually("all messages", () -> Arrays.stream(got).mapToInt(AtomicInteger::get).sum() >= count);
        for (Connection nc : members) nc.flush(WAIT);
        same(Arrays.stream(got).mapToInt(AtomicInteger::get).sum(), count, "messages to the group");
        for (AtomicInteger mine : got) that(mine.get() > count / 10, "a member was left out: " + Arrays.toString(got));
        for (Connection nc : members) nc.close();
    }

    static void requests(int count) throws Exception {
        try (Connection service = connect(); Connection client = connect()) {
            service.createDispatcher(m -> service.publish(m.getReplyTo(), bytes("answer to " + text(m)))).subscribe("java.service");
            service.flush(WAIT);
            var asked = IntStream.range(0, count).mapToObj(i -> client.request("java.service", bytes("" + i))).toList();
            for (int i = 0; i < count; i++) same(text(asked.get(i).get(WAIT.toSeconds(), TimeUnit.SECONDS)), "answer to " + i, "answer");
        }
    }

    static void noResponders() throws Exception {
        Options options = options("nats://" + said(STATE, "nats")).reportNoResponders().build();
        try (Connection nc = Nats.connect(options)) {
            try {
                nc.request("java.nobody", null).get(WAIT.toSeconds(), TimeUnit.SECONDS);
                throw new AssertionError("the request was answered");
            } catch (ExecutionException e) {
                that(e.getCause() instanceof JetStreamStatusException || e.getCause().toString().contains("503"), "got " + e.getCause());
            }
        }
    }

    static void headers() throws Exception {
        try (Connection nc = connect()) {
            Subscription s = nc.subscribe("java.headers");
            Headers sent = new Headers().add("One", "1").add("lower", "x").add("UPPER", "y").add("Twice", "first", "second").add("Colon", "a: b");
            nc.publish(NatsMessage.builder().subject("java.headers").replyTo("answer.here").headers(sent).data("payload").build());
            Message m = next(s);
            same(text(m) + m.getReplyTo(), "payloadanswer.here", "payload and reply");
            for (String name : sent.keySet()) same(m.getHeaders().get(name), sent.get(name), name);
            same(m.getHeaders().size(), sent.size(), "how many headers");
        }
    }

    static void large() throws Exception {
        try (Connection nc = connect(); Connection other = connect()) {
            same(nc.getMaxPayload(), 1L << 20, "max_payload");
            Subscription s = nc.subscribe("java.large");
            nc.flush(WAIT);
            byte[] payload = new byte[1 << 20];
            new Random(1).nextBytes(payload);
            for (int i = 0; i < 5; i++) other.publish("java.large", payload);
            for (int i = 0; i < 5; i++) that(Arrays.equals(next(s).getData(), payload), "a payload of 1 MiB was damaged");
            raises(IllegalArgumentException.class, () -> other.publish("java.large", new byte[(1 << 20) + 1]), "a payload over the limit");
        }
    }

    static void unsubscribe() throws Exception {
        try (Connection nc = connect()) {
            Subscription limited = nc.subscribe("java.unsub").unsubscribe(3), other = nc.subscribe("java.unsub");
            for (int i = 0; i < 6; i++) nc.publish("java.unsub", bytes("" + i));
            for (int i = 0; i < 3; i++) same(text(next(limited)), "" + i, "message");
            for (int i = 0; i < 6; i++) same(text(next(other)), "" + i, "message");
        }
    }

    static void manySubscriptions(int count) throws Exception {
        try (Connection nc = connect(); Connection sender = connect()) {
            Set<String> seen = ConcurrentHashMap.newKeySet();
            Dispatcher d = nc.createDispatcher(m -> seen.add(m.getSubject()));
            for (int i = 0; i < count; i++) d.subscribe("java.many." + i);
            nc.flush(WAIT);
            for (int i = 0; i < count; i++) sender.publish("java.many." + i, null);
            eventually("a message per subscription", () -> seen.size() == count);
        }
    }

    static void inOrder(int count) throws Exception {
        try (Connection nc = connect(); Connection sender = connect()) {
            Subscription s = nc.subscribe("java.order.*");
            s.setPendingLimits(-1, -1);
            nc.flush(WAIT);
            for (int i = 0; i < count; i++) sender.publish("java.order." + i % 5, bytes("" + i));
            for (int i = 0; i < count; i++) same(text(next(s)), "" + i, "message");
        }
    }

    static void drain() throws Exception {
        AtomicInteger got = new AtomicInteger();
        try (Connection nc = connect(); Connection sender = connect()) {
            nc.createDispatcher(m -> { Thread.sleep(1); got.incrementAndGet(); }).subscribe("java.drain");
            nc.flush(WAIT);
            for (int i = 0; i < 200; i++) sender.publish("java.drain", null);
            sender.flush(WAIT);
            that(nc.drain(WAIT).get(WAIT.toSeconds(), TimeUnit.SECONDS), "the drain did not end in time");
        }
        same(got.get(), 200, "messages before the end of the drain");
    }

    static void reconnect() throws Exception {
        var back = new CountDownLatch(1);
        Options options = options("nats://" + said(STATE, "nats")).maxReconnects(-1).reconnectWait(Duration.ofMillis(100))
            .connectionListener((c, event) -> { if (event == ConnectionListener.Events.RESUBSCRIBED) back.countDown(); }).build();
        try (Connection nc = Nats.connect(options)) {
            Subscription s = nc.subscribe("java.again.*");
            nc.publish("java.again.before", null);
            same(next(s).getSubject(), "java.again.before", "before the restart");
            server("restart");
            that(back.await(WAIT.toSeconds(), TimeUnit.SECONDS), "the client did not come back");
            nc.publish("java.again.after", null);
            same(next(s).getSubject(), "java.again.after", "after the restart");
        }
    }
}
