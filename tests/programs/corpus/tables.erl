%% A table shared by all processes, and eight processes that sort lists of their own.
-module(tables).
-export([main/0]).

main() ->
    Table = ets:new(table, [set]),
    Numbers = lists:seq(1, 200000),
    [ets:insert(Table, {Number, integer_to_list(Number), Number * Number}) || Number <- Numbers],
    Value = fun(Number) -> ets:lookup_element(Table, Number * 7919 rem 200000 + 1, 3) end,
    io:format("~p~n", [lists:foldl(fun(Number, Sum) -> (Sum * 31 + Value(Number)) rem 1000000007 end, 0, Numbers)]),
    Main = self(),
    [spawn(fun() -> Main ! {Process, sorted(Process)} end) || Process <- lists:seq(1, 8)],
    [receive {Process, Sum} -> io:format("~p ~p~n", [Process, Sum]) end || Process <- lists:seq(1, 8)],
    halt().

sorted(Process) ->
    List = lists:sort([Number * Process rem 100003 || Number <- lists:seq(1, 50000)]),
    lists:foldl(fun(Number, Sum) -> (Sum * 31 + Number) rem 1000000007 end, 0, List).
