package tailrace.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.*;

/**
 * Kafka's Java client as a client of interop/python/security_clients.py. A line of standard input is a scene,
 * its words separated by tabs; the answer is a line, "ok" or "error NAME text".
 */
public final class SecurityClient {
    private static final long SCENE_MS_MAX = 20_000;
    private static final String MODULES = "org.apache.kafka.common.security.";
    private static final Map<String, String> MODULE = Map.of(
        "PLAIN", "plain.PlainLoginModule", "SCRAM-SHA-256", "scram.ScramLoginModule", "SCRAM-SHA-512", "scram.ScramLoginModule", "OAUTHBEARER", "oauthbearer.OAuthBearerLoginModule");

    public static void main(String[] args) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            Map<String, String> scene = new HashMap<>();
            for (String word : line.split("\t")) scene.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
            play(scene);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void play(Map<String, String> scene) {
        int[] count = {0};
        try {
            switch (scene.get("do")) {
                case "produce" -> produce(scene);
                case "consume" -> consume(scene);
                case "transact" -> transact(scene);
                case "hold" -> hold(scene, count);
                default -> throw new IllegalArgumentException(scene.get("do"));
            }
            System.out.println(("ok " + (count[0] > 0 ? count[0] : "")).trim());
        } catch (Exception e) {
            System.out.println("error " + name(e) + " " + count[0] + " " + String.valueOf(e).replaceAll("\\s+", " "));
        }
    }

    private static String name(Throwable e) {
        for (Throwable t = e; t != null; t = t.getCause()) if (Errors.forException(t) != Errors.UNKNOWN_SERVER_ERROR) return Errors.forException(t).name();
        return "OTHER";
    }

    private static Map<String, Object> config(Map<String, String> s, Object... more) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", s.get("bootstrap"), "reconnect.backoff.max.ms", "500", "request.timeout.ms", "5000", "max.block.ms", "10000", "delivery.timeout.ms", "10000"));
        String mechanism = s.getOrDefault("mechanism", "");
        c.put("security.protocol", (mechanism.isEmpty() ? "" : "SASL_") + (s.containsKey("ca") ? "SSL" : "PLAINTEXT"));
        if (!mechanism.isEmpty()) {
            c.put("sasl.mechanism", mechanism);
            String who = mechanism.equals("OAUTHBEARER") ? "" : " username=\"" + s.get("user") + "\" password=\"" + s.get("password") + "\"";
            c.put("sasl.jaas.config", MODULES + MODULE.get(mechanism) + " required" + who + ";");
        }
        if (mechanism.equals("OAUTHBEARER")) {
            c.put("sasl.login.callback.handler.class", MODULES + "oauthbearer.OAuthBearerLoginCallbackHandler");
            c.put("sasl.oauthbearer.token.endpoint.url", "file://" + s.get("token-file"));
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", "file://" + s.get("token-file"));
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", s.get("token-file"));
        }
        if (s.containsKey("ca")) c.putAll(Map.of("ssl.truststore.type", "PEM", "ssl.truststore.location", s.get("ca")));
        if (s.containsKey("cert")) c.putAll(Map.of("ssl.keystore.type", "PEM", "ssl.keystore.location", s.get("both")));
        for (int i = 0; i < more.length; i += 2) c.put((String) more[i], more[i + 1]);
        return c;
    }

    private static Producer<String, String> producer(Map<String, String> s, Object... more) {
        return new KafkaProducer<>(config(s, more), new StringSerializer(), new StringSerializer());
    }

    private static void send(Producer<String, String> to, Map<String, String> s, String value) throws Exception {
        to.send(new ProducerRecord<>(s.get("topic"), value)).get();
    }

    private static void produce(Map<String, String> s) throws Exception {
        try (var producer = producer(s)) { send(producer, s, s.get("value")); }
    }

    private static void transact(Map<String, String> s) throws Exception {
        try (var producer = producer(s, "transactional.id", s.get("id"))) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, s, s.get("value"));
            producer.commitTransaction();
        }
    }

    private static void hold(Map<String, String> s, int[] count) throws Exception {
        try (var producer = producer(s)) {
            for (long end = System.currentTimeMillis() + 1000L * Long.parseLong(s.get("seconds")); System.currentTimeMillis() < end; Thread.sleep(50)) {
                send(producer, s, "x");
                if (++count[0] == 1) System.out.println("works");
            }
        }
    }

    private static void consume(Map<String, String> s) {
        try (var consumer = new KafkaConsumer<>(config(s, "group.id", s.get("group"), "auto.offset.reset", "earliest"), new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(s.get("topic")));
            for (long end = System.currentTimeMillis() + SCENE_MS_MAX; System.currentTimeMillis() < end; )
                for (var record : consumer.poll(Duration.ofMillis(500))) if (record.value().equals(s.get("value"))) return;
        }
        throw new IllegalStateException("the record did not come");
    }
}
