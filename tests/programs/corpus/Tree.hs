-- A tree of lists of digits, made in one order and read in another.
import Data.List (foldl')
import qualified Data.Map.Strict as Map

digits :: Map.Map Int String
digits = foldl' (\tree number -> Map.insert (number * 7919 `mod` 100003) (show number) tree) Map.empty [1 .. 200000]

main :: IO ()
main = print (Map.foldlWithKey' (\sum key text -> (sum * 31 + key + length text) `mod` 1000000007) 0 digits)
