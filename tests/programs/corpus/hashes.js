// A table of objects.
const table = new Map();
for (let round = 0; round < 2; round++)
	for (let number = 0; number < 200000; number++)
		table.set(`key ${number}`, { number, round, text: `text of number ${number * 7919 % 200000}` });
let sum = 0;
for (const value of table.values())
	sum += value.number * value.round + value.text.length;
console.log(table.size, sum);
