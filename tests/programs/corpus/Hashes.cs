using System;
using System.Collections.Generic;
using System.Threading;

/// <summary>A table of arrays, and four threads that sort lists of their own.</summary>
class Hashes {
	static void Main() {
		var table = new Dictionary<string, long[]>();
		long sum = 0;

		for (int number = 0; number < 200000; number++)
			table["key" + number] = new long[] { number, (long)number * number };
		for (long number = 0; number < 200000; number++)
			sum = (sum * 31 + table["key" + number * 7919 % 200000][1]) % 1000000007;
		var sums = new long[4];
		var threads = new List<Thread>();
		for (int i = 0; i < sums.Length; i++) {
			int mine = i;
			threads.Add(new Thread(() => sums[mine] = Sorted(mine + 7)));
			threads[i].Start();
		}
		threads.ForEach(thread => thread.Join());
		Console.WriteLine(sum + " " + string.Join(" ", sums));
	}

	static long Sorted(int factor) {
		var list = new List<long>();
		long sum = 0;

		for (int number = 0; number < 100000; number++)
			list.Add((long)number * factor % 100003);
		list.Sort();
		list.ForEach(number => sum = (sum * 31 + number) % 1000000007);
		return sum;
	}
}
