# Hashes of arrays.
table = {}
200_000.times { |number| table["key #{number * 7919 % 200_000}"] = [number, "text #{number}"] }
puts table.size, table.values.sum { |value| value[0] + value[1].size }
