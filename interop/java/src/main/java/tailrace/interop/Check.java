package tailrace.interop;

import java.util.Objects;
import java.util.concurrent.*;
import java.util.regex.Pattern;

/** Runs named tests and prints one line for each. */
final class Check {
    static final String BOOTSTRAP = System.getenv("BOOTSTRAP");
    /** For topics that tests make. There are as many nodes. */
    static final short REPLICAS = Short.parseShort(System.getenv().getOrDefault("INTEROP_REPLICAS", "1"));
    /**
     * Kafka acknowledges a creation before the partitions have their leaders. tailrace must not need this
     * patience.
     */
    static final boolean LEADERS_LATE = "kafka".equals(System.getenv("INTEROP_TARGET"));
    static final boolean SMOKE = "smoke".equals(System.getenv("INTEROP_MODE"));
    private static final Pattern ONLY = Pattern.compile(System.getenv().getOrDefault("ONLY", ""));
    /** A test that hangs is a failed test. */
    private static final int TEST_SECONDS_MAX = 120;
    static int failed = 0;
    /** The suite that the tests belong to. */
    static String client = "kafka-clients";

    interface Action { void run() throws Exception; }
    interface Probe { boolean holds() throws Exception; }

    static void run(boolean inSmoke, String name, Action action) {
        if ((SMOKE && !inSmoke) || !ONLY.matcher(name).find()) return;
        long began = System.nanoTime();
        Thread[] worker = new Thread[1];
        ExecutorService thread = Executors.newSingleThreadExecutor(r -> { worker[0] = new Thread(r); worker[0].setDaemon(true); return worker[0]; });
        try {
            thread.submit(() -> { action.run(); return null; }).get(TEST_SECONDS_MAX, TimeUnit.SECONDS);
            System.out.printf("PASS %s: %s (%.1f s)%n", client, name, (System.nanoTime() - began) / 1e9);
        } catch (TimeoutException e) {
            var late = new AssertionError("not done after " + TEST_SECONDS_MAX + " s");
            late.setStackTrace(worker[0].getStackTrace());
            fail(name, late);
        } catch (Exception e) {
            fail(name, e instanceof ExecutionException ? e.getCause() : e);
        } finally {
            thread.shutdownNow();
        }
    }

    private static void fail(String name, Throwable e) {
        failed++;
        System.out.println("FAIL " + client + ": " + name + ": " + e);
        e.printStackTrace();
    }

    static void that(boolean condition, String message) {
        if (!condition) throw new AssertionError(message);
    }

    static void same(Object got, Object want, String what) {
        if (!Objects.equals(got, want)) throw new AssertionError(what + ": got " + got + ", want " + want);
    }

    /** The action must fail with this exception, or with it as the cause. */
    static void raises(Class<? extends Throwable> kind, Action action, String what) {
        try {
            action.run();
        } catch (Exception e) {
            for (Throwable t = e; t != null; t = t.getCause()) if (kind.isInstance(t)) return;
            throw new AssertionError(what + ": want " + kind.getSimpleName() + ", got " + e, e);
        }
        throw new AssertionError(what + ": no error");
    }

    /** Waits until the probe holds. Metadata may lag behind an admin call. */
    static void eventually(String what, Probe probe) throws Exception {
        for (long end = System.nanoTime() + 20_000_000_000L; !probe.holds(); Thread.sleep(100)) that(System.nanoTime() < end, "not within 20 s: " + what);
    }

    /** Stops or starts the server under test. */
    static void server(String verb, String... rest) throws Exception {
        server(java.util.Map.of(), verb, System.getenv("INTEROP_STATE"), rest);
    }

    /** The same for a separate server in this state folder. */
    static void server(java.util.Map<String, String> environment, String verb, String state, String... rest) throws Exception {
        var command = new java.util.ArrayList<>(java.util.List.of(System.getenv("INTEROP_SERVER"), verb, state));
        command.addAll(java.util.List.of(rest));
        var builder = new ProcessBuilder(command);
        builder.environment().putAll(environment);
        Process p = builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        same(p.waitFor(), 0, "server " + verb);
    }
}
