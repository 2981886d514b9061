package main

import "fmt"

func main() {
	table := map[int][]int{}
	for number := 0; number < 100000; number++ {
		table[number] = make([]int, 60)
		for at := range table[number] {
			table[number][at] = number * at
		}
	}
	sum := 0
	for _, values := range table {
		for _, value := range values {
			sum += value
		}
	}
	fmt.Println(len(table), sum)
}
