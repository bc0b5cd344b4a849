// Single-preference voting: each step one voter who has not voted, chosen uniformly, adds to the public count of its candidate.
// What the counts tell of the votes: veil measure voting.pm --set horizon=4
dtmc

const int C = 4;  // candidates, up to four

global secret vote1 : [1..C];
global secret vote2 : [1..C];
global secret vote3 : [1..C];
global secret vote4 : [1..C];
global observable count1 : [0..4];
global observable count2 : [0..4];
global observable count3 : [0..4];
global observable count4 : [0..4];

module voter1
  voted1 : bool;
  [] !voted1 & vote1=1 -> (voted1'=true) & (count1'=count1+1);
  [] !voted1 & vote1=2 -> (voted1'=true) & (count2'=count2+1);
  [] !voted1 & vote1=3 -> (voted1'=true) & (count3'=count3+1);
  [] !voted1 & vote1=4 -> (voted1'=true) & (count4'=count4+1);
  [done] voted1 -> true;
endmodule

module voter2 = voter1 [ voted1=voted2, vote1=vote2 ] endmodule
module voter3 = voter1 [ voted1=voted3, vote1=vote3 ] endmodule
module voter4 = voter1 [ voted1=voted4, vote1=vote4 ] endmodule

init !voted1 & !voted2 & !voted3 & !voted4 & count1=0 & count2=0 & count3=0 & count4=0 endinit
