package tailrace.interop;

/** Apache Kafka's own Java clients, run by interop/run.sh with the environment that server.sh needs. */
public final class Main {
    public static void main(String[] args) {
        RecordTests.all();
        AdminTests.all();
        ShareTests.all();
        TransactionTests.all();
        System.exit(Check.failed == 0 ? 0 : 1);
    }
}
