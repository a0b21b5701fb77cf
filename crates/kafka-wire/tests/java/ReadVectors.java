// Reads lines "KEY request|response VERSION HEX" from stdin. Decodes each with Kafka's own generated
// classes and encodes it again. Prints a line for each message that changes, and finally the number of
// unchanged ones.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

public class ReadVectors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        int same = 0;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", -1);
            String problem = problem(words);
            if (problem == null) {
                same++;
            } else {
                System.out.println(words[0] + " " + words[1] + " v" + words[2] + ": " + problem);
            }
        }
        System.out.println(same);
    }

    static String problem(String[] words) {
        try {
            ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(words[0]));
            ApiMessage message = words[1].equals("request") ? type.newRequest() : type.newResponse();
            short version = Short.parseShort(words[2]);
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
            message.read(new ByteBufferAccessor(bytes), version);
            if (bytes.hasRemaining()) {
                return bytes.remaining() + " bytes were left";
            }
            ByteBuffer encoded = MessageUtil.toByteBufferAccessor(message, version).buffer();
            return encoded.equals(bytes.rewind()) ? null : "encoded differently";
        } catch (Exception exception) {
            return exception.toString();
        }
    }
}
