package tailrace.interop;

import java.io.*;
import java.lang.reflect.InvocationTargetException;
import java.net.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's console tools one after the other in this process, because starting a JVM is most of a
 * tool's time. Each line of standard input is a command: the file of its output, the file of its input, its
 * class and arguments, separated by U+001F. The answer is its exit status. Every command loads the tools'
 * classes afresh, because they keep counts in static fields. The common classes (kafka-clients) are on the
 * class path; the arguments name the tools' jars.
 */
public final class ToolShell {
    private static final int TOOL_SECONDS_MAX = 60;
    private static final class Exited extends Error {
        final int status;
        Exited(int status) { super(null, null, false, false); this.status = status; }
    }

    public static void main(String[] jars) throws Exception {
        List<URL> urls = new ArrayList<>();
        for (String jar : jars) urls.add(Path.of(jar).toUri().toURL());
        PrintStream answers = System.out;
        Exit.Procedure exit = (status, message) -> { throw new Exited(status); };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        List<Runnable> hooks = new CopyOnWriteArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split("\u001f", -1);
            try (var out = new PrintStream(new FileOutputStream(words[0], true), true); var in = new FileInputStream(words[1])) {
                System.setOut(out);
                System.setErr(out);
                System.setIn(in);
                int status = run(urls, words[2], Arrays.copyOfRange(words, 3, words.length), out);
                for (Runnable hook : hooks) run(hook, out);
                hooks.clear();
                answers.println(status);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    /** Runs a tool's shutdown hooks. A hook that waits for its own threads must not hold up the others. */
    private static void run(Runnable hook, PrintStream out) throws InterruptedException {
        Thread thread = new Thread(hook);
        thread.setDaemon(true);
        thread.start();
        thread.join(5000);
    }

    private static int run(List<URL> jars, String tool, String[] arguments, PrintStream out) throws Exception {
        var loader = new URLClassLoader(jars.toArray(URL[]::new), ToolShell.class.getClassLoader());
        var status = new CompletableFuture<Integer>();
        Thread thread = new Thread(() -> {
            try {
                loader.loadClass(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
                status.complete(0);
            } catch (InvocationTargetException e) {
                if (e.getCause() instanceof Exited exited) status.complete(exited.status);
                else { e.getCause().printStackTrace(out); status.complete(1); }
            } catch (Throwable e) {
                e.printStackTrace(out);
                status.complete(2);
            }
        }, tool);
        thread.setContextClassLoader(loader);
        thread.setDaemon(true);
        thread.start();
        try {
            return status.get(TOOL_SECONDS_MAX, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            out.println("not done after " + TOOL_SECONDS_MAX + " s");
            return 124;
        }
    }
}
