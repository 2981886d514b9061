<?php
// Answers a request with the sum of a large array.
$words = [];
for ($i = 0; $i < 300000; $i++)
	$words["key$i"] = str_repeat(chr(97 + ($i + (int)$_GET["n"]) % 26), 60);
$sum = 0;
for ($i = 0; $i < 300000; $i += 7)
	$sum += ord($words["key$i"][5]);
echo "$sum\n";
