package tailrace.interop;

import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Acquires records and never acknowledges them, until it is killed: ShareHolder GROUP TOPIC. Prints a line
 * `VALUE DELIVERIES` for each, then `held`.
 */
public final class ShareHolder {
    public static void main(String[] args) throws Exception {
        var member = new KafkaShareConsumer<>(Map.<String, Object>of("bootstrap.servers", Check.BOOTSTRAP, "group.id", args[0], "share.acknowledgement.mode", "explicit", "fetch.max.wait.ms", 200,
            "reconnect.backoff.max.ms", "500"), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        member.subscribe(List.of(args[1]));
        // A long poll: each poll that finds nothing asks for a fetch, and one that crosses with the answer is
        // carried out although the records are here.
        for (var records = member.poll(Duration.ofMinutes(1)); ; records = member.poll(Duration.ofMinutes(1))) {
            if (records.isEmpty()) continue;
            records.forEach(r -> System.out.println(new String(r.value()) + " " + r.deliveryCount().orElse((short) 0)));
            System.out.println("held");
            Thread.sleep(Long.MAX_VALUE);
        }
    }
}
