<?php
ini_set('memory_limit', '512M');
$table = [];
for ($number = 0; $number < 200000; $number++)
	$table["key " . ($number * 7919 % 200000)] = [$number, "text $number"];
$sum = 0;
foreach ($table as $value)
	$sum += $value[0] + strlen($value[1]);
echo count($table), " $sum\n";
