"""workers.py: forked workers make tables of their own while their parent has one."""
import concurrent.futures
import multiprocessing

OWN = {number: str(number) * 3 for number in range(100000)}


def work(part):
    table = {number: str(number + part) * 5 for number in range(80000)}
    numbers = list(range(part, 500000 + part))
    return sum(len(text) for text in table.values()) + sum(numbers[::7]) + len(OWN[part])


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        print(list(pool.map(work, range(4))))
    print(sum(len(text) for text in OWN.values()))
