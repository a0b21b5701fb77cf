package tailrace.interop;

import static tailrace.interop.Check.*;
import static tailrace.interop.NatsTests.*;

import io.nats.client.*;
import java.io.FileInputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Map;
import javax.net.ssl.*;

/** Authentication and TLS. */
final class NatsFrontTests {
    interface WithFront { void run(String address, String state) throws Exception; }

    static void all() {
        run(true, "user and password", () -> front("user", (address, state) -> {
            works(options("nats://" + address).userInfo("alice".toCharArray(), "s3cret".toCharArray()));
            works(options("nats://alice:s3cret@" + address));
            refused("a wrong password", options("nats://" + address).userInfo("alice".toCharArray(), "wrong".toCharArray()));
            refused("nothing", options("nats://" + address));
        }));
        run(false, "token", () -> front("token", (address, state) -> {
            works(options("nats://" + address).token("open-sesame".toCharArray()));
            refused("a wrong token", options("nats://" + address).token("open-barley".toCharArray()));
        }));
        run(true, "nkey", () -> front("nkey", (address, state) -> {
            works(options("nats://" + address).authHandler(Nats.staticCredentials(null, said(state, "seed").toCharArray())));
            refused("nothing", options("nats://" + address));
        }));
        run(true, "credentials files", () -> front("creds", (address, state) -> {
            works(credentials(address, state, "good"));
            var told = new java.util.concurrent.LinkedBlockingQueue<String>();
            ErrorListener listener = new ErrorListener() {
                @Override public void errorOccurred(Connection connection, String error) { told.add(error); }
            };
            try (Connection scoped = Nats.connect(credentials(address, state, "scoped").errorListener(listener).build())) {
                Subscription inside = scoped.subscribe("scoped.x");
                scoped.publish("scoped.x", bytes("yes"));
                same(text(next(inside)), "yes", "inside the scope");
                scoped.publish("other.x", bytes("no"));
                String error = told.poll(20, java.util.concurrent.TimeUnit.SECONDS);
                if (error == null || !error.toLowerCase().contains("permissions violation for publish to \"other.x\"")) throw new AssertionError("outside the scope: " + error);
            }
            for (String name : new String[] {"revoked", "expired", "stranger", "forged"}) refusedLogin(name, credentials(address, state, name));
            refusedLogin("no claims", options("nats://" + address));
            refusedLogin("a password", options("nats://" + address).userInfo("alice".toCharArray(), "s3cret".toCharArray()));
        }));
        run(true, "TLS", () -> front("tls", (address, state) -> {
            works(options("nats://" + address).sslContext(tls(state, false)));
            works(options("tls://" + address).sslContext(tls(state, false)));
            refused("an authority that the client does not know", options("tls://" + address).sslContext(SSLContext.getDefault()));
        }));
        run(false, "TLS with a client's certificate", () -> front("tls-verify", (address, state) -> {
            works(options("tls://" + address).sslContext(tls(state, true)));
            refused("no certificate", options("tls://" + address).sslContext(tls(state, false)));
        }));
        run(false, "TLS before the INFO", () -> front("tls-first", (address, state) -> works(options("tls://" + address).sslContext(tls(state, false)).tlsFirst())));
    }

    /** Runs another server with another front. */
    private static void front(String kind, WithFront action) throws Exception {
        String state = STATE + "/java-" + kind;
        server(Map.of("NATS_FRONT", kind), "start", state, System.getenv("INTEROP_TARGET"));
        try {
            action.run(said(state, "nats"), state);
        } finally {
            server(Map.of(), "stop", state, "KILL");
        }
    }

    private static void works(Options.Builder options) throws Exception {
        try (Connection nc = Nats.connect(options.build())) {
            Subscription s = nc.subscribe("java.works");
            nc.publish("java.works", bytes("yes"));
            same(text(next(s)), "yes", "a message");
        }
    }

    private static Options.Builder credentials(String address, String state, String name) {
        return options("nats://" + address).authHandler(Nats.credentials(state + "/" + name + ".creds"));
    }

    private static void refusedLogin(String what, Options.Builder options) throws Exception {
        try (Connection nc = Nats.connect(options.build())) {
            throw new AssertionError(what + ": the connection succeeded");
        } catch (AuthenticationException expected) {
            if (!expected.getMessage().toLowerCase().contains("authorization violation")) throw new AssertionError(what + ": " + expected.getMessage());
        }
    }

    private static void refused(String what, Options.Builder options) throws Exception {
        try (Connection nc = Nats.connect(options.build())) {
            throw new AssertionError(what + ": the connection succeeded");
        } catch (java.io.IOException expected) {
            // AuthenticationException is an IOException, too.
        }
    }

    private static SSLContext tls(String state, boolean certificate) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (var file = new FileInputStream(state + "/ca.pem")) {
            trusted.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        KeyManager[] keys = null;
        if (certificate) {
            KeyStore own = KeyStore.getInstance("PKCS12");
            try (var file = new FileInputStream(state + "/client.p12")) { own.load(file, "interop".toCharArray()); }
            var manager = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            manager.init(own, "interop".toCharArray());
            keys = manager.getKeyManagers();
        }
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys, trust.getTrustManagers(), null);
        return context;
    }
}
