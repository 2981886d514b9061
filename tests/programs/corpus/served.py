"""A web application with a dictionary of 50 MB. Its server, gunicorn, loads it before it forks its workers."""
TABLE = {number: "v" * 100 + str(number) for number in range(200000)}


def application(environ, start):
    first = int(environ["QUERY_STRING"])
    start("200 OK", [("Content-Type", "text/plain")])
    return [f"{sum(len(TABLE[(first + i) * 97 % 200000]) for i in range(2000))}\n".encode()]
