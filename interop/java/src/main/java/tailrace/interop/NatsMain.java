package tailrace.interop;

/** jnats against the NATS front, run by interop/run.sh; the same tests pass against nats-server. */
public final class NatsMain {
    public static void main(String[] args) {
        Check.client = "jnats";
        NatsTests.all();
        NatsFrontTests.all();
        System.exit(Check.failed == 0 ? 0 : 1);
    }
}
