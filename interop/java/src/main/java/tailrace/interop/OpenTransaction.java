package tailrace.interop;

import java.util.Map;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Leaves a transaction open in the first partition of a topic for as long as the process lives:
 * OpenTransaction TRANSACTIONAL_ID TOPIC.
 */
public final class OpenTransaction {
    public static void main(String[] args) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", Check.BOOTSTRAP, "transactional.id", args[0], "transaction.timeout.ms", 120_000);
        var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(args[1], 0, null, "never committed")).get();
        Thread.sleep(Long.MAX_VALUE);
    }
}
