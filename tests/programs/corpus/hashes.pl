# Hashes of arrays.
my %table;
for my $number (0 .. 59999) {
	push @{ $table{"key " . ($number * 7919 % 30000)} }, $number, "text $number";
}
my ($count, $length) = (0, 0);
for my $key (sort keys %table) {
	$count += @{ $table{$key} };
	$length += length $_ for @{ $table{$key} };
}
print scalar(keys %table), " $count $length\n";
