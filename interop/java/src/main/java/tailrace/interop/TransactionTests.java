package tailrace.interop;

import static tailrace.interop.Check.*;
import static tailrace.interop.Clients.*;

import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaException;

/** Transactions that outlast their timeout, as in a slow consume-transform-produce application. */
final class TransactionTests {
    static void all() {
        run(true, "transaction: a producer aborts what has timed out, and goes on", TransactionTests::abortsAndGoesOn);
        run(false, "transaction: a producer that writes on after the time learns of it, aborts, and goes on", TransactionTests::writesAndGoesOn);
        run(false, "transaction: what has timed out cannot be committed", TransactionTests::cannotCommit);
    }

    private static final String TIMEOUT_MS = "1000";

    private static Producer<byte[], byte[]> begun(String topic) throws Exception {
        var p = producer("transactional.id", topic + "-id", "transaction.timeout.ms", TIMEOUT_MS);
        p.initTransactions();
        return p;
    }

    private static void write(Producer<byte[], byte[]> p, String topic, String value) throws Exception {
        p.send(record(topic, 0, null, value.getBytes())).get();
    }

    /** Starts a transaction with one record, and waits until the server has aborted it. */
    private static void outlast(Producer<byte[], byte[]> p, String topic) throws Exception {
        p.beginTransaction();
        write(p, topic, "late");
        try (Admin a = Clients.admin()) {
            var id = topic + "-id";
            eventually("the server aborts", () -> a.describeTransactions(List.of(id)).description(id).get().state() == TransactionState.COMPLETE_ABORT);
        }
    }

    private static void commit(Producer<byte[], byte[]> p, String topic, String value) throws Exception {
        p.beginTransaction();
        write(p, topic, value);
        p.commitTransaction();
    }

    private static void seesOnly(String topic, String... values) {
        var seen = read(topic, values.length, Map.of(0, 0L), "isolation.level", "read_committed");
        same(seen.stream().map(r -> new String(r.value())).toList(), List.of(values), "committed records");
    }

    private static void abortsAndGoesOn() throws Exception {
        String topic = create("timed-out", 1, Map.of());
        try (var p = begun(topic)) {
            commit(p, topic, "before");
            for (int i = 0; i < 2; i++) {
                outlast(p, topic);
                p.abortTransaction();
                commit(p, topic, "after " + i);
            }
            // An ordinary abort right afterwards must not count as that of a transaction that timed out.
            p.beginTransaction();
            write(p, topic, "given up");
            p.abortTransaction();
            commit(p, topic, "last");
        }
        seesOnly(topic, "before", "after 0", "after 1", "last");
    }

    private static void writesAndGoesOn() throws Exception {
        String topic = create("timed-out-writing", 1, Map.of());
        try (var p = begun(topic)) {
            outlast(p, topic);
            raises(KafkaException.class, () -> write(p, topic, "too late"), "a record of a transaction that is over");
            p.abortTransaction();
            commit(p, topic, "after");
        }
        seesOnly(topic, "after");
    }

    private static void cannotCommit() throws Exception {
        String topic = create("timed-out-committing", 1, Map.of());
        try (var p = begun(topic)) {
            outlast(p, topic);
            raises(KafkaException.class, p::commitTransaction, "a commit of a transaction that is over");
        }
        try (var p = begun(topic)) {
            commit(p, topic, "after");
        }
        seesOnly(topic, "after");
    }
}
