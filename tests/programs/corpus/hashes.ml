(* A table of lists, made in one order and read in another. *)
let size = 300000

let () =
  let lists = Hashtbl.create 16 and sum = ref 0 in
  for number = 0 to size - 1 do
    Hashtbl.replace lists ("key " ^ string_of_int number) [number; number * number]
  done;
  for number = 0 to size - 1 do
    let list = Hashtbl.find lists ("key " ^ string_of_int (number * 7919 mod size)) in
    sum := ((!sum * 31) + List.nth list 1) mod 1000000007
  done;
  Printf.printf "%d\n" !sum
