-- A table of lists, made in one order and read in another.
local size, sum, lists = 250000, 0, {}
for number = 0, size - 1 do
	lists["key " .. number] = {number, tostring(number * number)}
end
for number = 0, size - 1 do
	local list = lists["key " .. number * 7919 % size]
	sum = (sum * 31 + list[1] + #list[2]) % 1000000007
end
print(sum)
