import java.io.File;
import java.util.List;
import org.apache.activemq.broker.BrokerPlugin;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.filter.DestinationMapEntry;
import org.apache.activemq.security.AuthenticationUser;
import org.apache.activemq.security.AuthorizationEntry;
import org.apache.activemq.security.AuthorizationPlugin;
import org.apache.activemq.security.DefaultAuthorizationMap;
import org.apache.activemq.security.SimpleAuthenticationPlugin;

/**
 * ActiveMQ Classic with STOMP on two ports of 127.0.0.1, its data in a folder. On the broker of the first port
 * all clients may do everything. On that of the second, only alice with the password s3cret may, and bob, with
 * the same password, may not use queues.
 *
 * Arguments: folder. Prints `ready PORT PORT`, and ends with its standard input.
 */
public final class Broker {
    /** The largest body of a frame that the brokers take, in bytes. */
    private static final int BODY_BYTES_MAX = 4 << 20;

    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        BrokerService open = broker("open", folder);
        BrokerService closed = broker("closed", folder);
        closed.setPlugins(new BrokerPlugin[] {users(), permissions()});
        open.start();
        closed.start();
        open.waitUntilStarted();
        closed.waitUntilStarted();
        System.out.println("ready " + port(open) + " " + port(closed));
        while (System.in.read() >= 0) {
        }
        open.stop();
        closed.stop();
    }

    private static BrokerService broker(String name, File folder) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName(name);
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        broker.setDataDirectoryFile(new File(folder, name));
        broker.addConnector("stomp://127.0.0.1:0?wireFormat.maxDataLength=" + BODY_BYTES_MAX);
        return broker;
    }

    private static SimpleAuthenticationPlugin users() {
        return new SimpleAuthenticationPlugin(List.of(
                new AuthenticationUser("alice", "s3cret", "users"), new AuthenticationUser("bob", "s3cret", "guests")));
    }

    private static AuthorizationPlugin permissions() throws Exception {
        AuthorizationEntry queues = entry("users");
        queues.setQueue(">");
        AuthorizationEntry advisories = entry("users,guests");
        advisories.setTopic("ActiveMQ.Advisory.>");
        List<DestinationMapEntry> entries = List.of(queues, advisories);
        return new AuthorizationPlugin(new DefaultAuthorizationMap(entries));
    }

    private static AuthorizationEntry entry(String roles) throws Exception {
        AuthorizationEntry entry = new AuthorizationEntry();
        entry.setRead(roles);
        entry.setWrite(roles);
        entry.setAdmin(roles);
        return entry;
    }

    private static int port(BrokerService broker) throws Exception {
        return broker.getTransportConnectors().get(0).getConnectUri().getPort();
    }
}
