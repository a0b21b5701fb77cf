package tailrace.interop;

import java.nio.file.Files;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.streams.tests.*;

/**
 * The smoke test that comes with Kafka Streams, exactly once, while instances come and go: StreamsSmoke
 * SECONDS.
 */
public final class StreamsSmoke {
    private static final int KEYS = 10, RECORDS_PER_KEY = 500;

    private static SmokeTestClient client(int n) throws Exception {
        Properties config = new Properties();
        config.putAll(Map.of("bootstrap.servers", Check.BOOTSTRAP, "processing.guarantee", "exactly_once_v2", "state.dir", Files.createTempDirectory("streams-smoke").toString(),
            "session.timeout.ms", 6000, "heartbeat.interval.ms", 500, "num.stream.threads", 2));
        var client = new SmokeTestClient("smoke-" + n);
        client.start(config);
        return client;
    }

    public static void main(String[] args) throws Exception {
        Duration time = Duration.ofSeconds(Long.parseLong(args[0]));
        try (Admin admin = Clients.admin()) {
            admin.createTopics(Arrays.stream(SmokeTestDriver.topics()).map(name -> new NewTopic(name, 2, Check.REPLICAS)).toList()).all().get();
        }
        var clients = new ArrayDeque<SmokeTestClient>(List.of(client(0)));
        var generated = CompletableFuture.supplyAsync(() -> SmokeTestDriver.generate(Check.BOOTSTRAP, KEYS, RECORDS_PER_KEY, time));
        int started = 1;
        while (!generated.isDone()) {
            Thread.sleep(time.toMillis() / 4);
            clients.add(client(started++));
            Thread.sleep(time.toMillis() / 8);
            if (clients.size() > 1) clients.poll().closeAsync();
        }
        var result = SmokeTestDriver.verify(Check.BOOTSTRAP, generated.get(), RECORDS_PER_KEY, true);
        boolean failed = clients.stream().anyMatch(SmokeTestClient::error);
        for (var client : clients) client.close();
        System.out.println(result.passed() && !failed ? "smoke test passed" : "smoke test FAILED: " + result.result());
        Runtime.getRuntime().halt(result.passed() && !failed ? 0 : 1);
    }
}
