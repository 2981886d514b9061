% A list of terms, sorted by a key and folded.
:- initialization(main).

term(Number, f(Key, Number, Text)) :-
    Key is Number * 7919 mod 150000,
    atom_number(Text, Number).

add(f(Key, Number, _), Sum, Next) :-
    Next is (Sum * 31 + Key + Number) mod 1000000007.

main :-
    numlist(1, 150000, Numbers),
    maplist(term, Numbers, Terms),
    sort(1, @<, Terms, Sorted),
    foldl(add, Sorted, 0, Sum),
    writeln(Sum),
    halt.
