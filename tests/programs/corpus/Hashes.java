import java.nio.ByteBuffer;
import java.util.HashMap;

/** A table of arrays, which are replaced again and again; and a direct buffer. */
public class Hashes {
	public static void main(String[] arguments) {
		HashMap<Integer, int[]> table = new HashMap<>();
		long sum = 0;
		for (int round = 0; round < 3; round++)
			for (int number = 0; number < 40000; number++) {
				int[] values = new int[250];
				for (int at = 0; at < values.length; at++)
					values[at] = number * at + round;
				table.put(number, values);
			}
		for (int[] values : table.values())
			for (int value : values)
				sum += value;
		ByteBuffer direct = ByteBuffer.allocateDirect(32 << 20);
		for (int at = 0; at < direct.capacity(); at += 512)
			direct.put(at, (byte) (at >> 12));
		for (int at = 0; at < direct.capacity(); at += 512)
			sum += direct.get(at);
		System.out.println(table.size() + " " + sum);
	}
}
