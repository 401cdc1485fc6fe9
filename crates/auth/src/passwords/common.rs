//! The list of common passwords, which attackers try first.

/// Common passwords in lower case, separated by whitespace. Short ones serve servers with a lower
/// `auth.password_min_length` than the default.
const COMMON: &str = "
    0000 00000 000000 0000000 010203 1111 11111 111111 1111111 112233 11223344 1212 121212 123
    123123 123321 1234 12345 123456 1234567 123456a 1234abc 12345a 123abc 123qwe 1313 131313 147258
    159357 159753 1q2w3e 1q2w3e4 1qaz 2000 222222 232323 2468 252525 321321 333333 4321 444444 520520
    54321 5555 555555 654321 666666 6969 696969 7654321 7777 777777 7777777 789456 87654 888888 987654
    999999 a12345 a123456 aaaa aaaaa aaaaaa aaaaaaa abc abc123 abcd abcd123 abcde abcdef abcdefg
    access admin admin1 alexis amanda andrea andrew angel angela anthony apple apples arsenal ashley
    asdf asdfg asdfgh asdfghj asdf123 austin azerty babygir bailey banana barney batman bigdog biteme
    blink boomer boston brandon buster camaro changeme charles charlie cheese chelsea chester chicken
    coffee compaq computer cookie cooper corvett cowboy dakota dallas daniel default demo diablo
    diamond doctor dragon eagle eagles edward falcon fender flower flowers freedom fuckme fuckyou
    gandalf george ginger golden golf google guest guitar hammer hannah harley heather hello hello1
    hockey hunter hunting iceman iloveu ihateu iwantu jackie jackson james jasmine jason jasper jennif
    jessica johnny john jordan joseph joshua junior justin killer killers knight kitty lakers
    lauren letmein login london love loveme lovely lover maggie magic marina martin master matrix
    matthew maxwell melissa merlin michael mickey midnigh mike miller money monkey monster morgan
    mother murphy music mustang nascar nathan nicole nothing ninja okokok orange p@ss pass passw
    passwd passwor patrick peanut pepper phoenix player please pokemon porsche prince purple pussy
    q1w2e3 qazwsx qaz123 qwe123 qweasd qweqwe qwer qwert qwert1 qwerty qwerty1 qwertyu rabbit rachel
    rainbow ranger rangers raiders robert rocket root samantha samson samsung sandra scooter secret
    secret1 shadow shannon sierra silver slayer smokey snoopy soccer sophie sparky spider steelers
    steven summer sunny sunshin super superma taylor tennis test test1 test12 test123 testing thomas
    thunder thx1138 tiger tigger toor trustno1 tucker turtle user victor viking voodoo welcome
    whateve william willie winner winston winter wizard wolf xavier xxx xxxxxx yamaha yankee yankees
    yellow zaq123 zaqwsx zxcv zxcvb zxcvbn zxcvbnm
    00000000 000000000 0000000000 11111111 111111111 1111111111 1111111112 11112222 11223344
    1122334455 112233445566 12121212 1212121212 123123123 123123123123 12341234 123412341234
    12344321 1234512345 123454321 1234554321 12345678 123456781 123456789 1234567890 12345678900
    12345678901 1234567891 12345678910 1234567899 123456789a 123456789q 12345678a 12345678q
    1234567a 1234567q 123456a1 123456aa 123456ab 123456abc 123456qw 123456qwe 123456qwerty
    12345qwert 1234abcd 1234qwer 123654789 123698745 12qwaszx 13131313 13579246 135792468
    1357924680 14141414 14725836 147258369 147852369 159357159 159753159 159753456 15975346
    16161616 18181818 19191919 19801980 19841984 19851985 19861986 19871987 19881988 19891989
    19901990 19911991 19921992 1a2b3c4d 1q2w3e4r 1q2w3e4r5t 1q2w3e4r5t6y 1qaz!qaz 1qaz1qaz
    1qaz2wsx 1qaz2wsx3edc 1qaz@wsx 1qazxsw2 20002000 21212121 22222222 222222222 2222222222
    23232323 246813579 24682468 25252525 25802580 31415926 314159265 33333333 333333333
    3333333333 369258147 36985214 44444444 444444444 4815162342 55555555 555555555 5555555555
    55667788 66666666 666666666 6666666666 69696969 74185296 741852963 77777777 777777777
    7777777777 78787878 789456123 7894561230 789789789 85208520 87654321 876543210 88888888
    888888888 8888888888 951753852 963852741 98765432 987654321 9876543210 99999999 999999999
    9999999999 a1234567 a12345678 a123456789 a1b2c3d4 a1b2c3d4e5 aa123456 aaaa1111 aaaaaaaa
    aaaaaaaaaa abc12345 abc123456 abc123456789 abc123abc abc123abc123 abcabcabc abcd1234
    abcd12345 abcd123456 abcde12345 abcdef123 abcdefg1 abcdefg123 abcdefgh abcdefghi abcdefghij
    access14 account1 admin123 admin1234 admin12345 admin123456 admin2020 admin2021 admin2022
    admin2023 admin2024 admin2025 admin@123 adminadmin administrator airborne alexander
    alexandra amsterdam anderson angel123 angelica anthony1 apple123 applepie arsenal1 asd123456
    asd123asd asdasdasd asdf1234 asdf12345 asdfasdf asdfasdfasdf asdfghjk asdfghjkl asdfghjkl1
    asdfjkl; asdfqwer azerty123 azertyui azertyuiop baby1234 babygirl babygirl1 backspace
    baseball baseball1 basketball batman123 beatles1 beautiful benjamin bestfriend bigdaddy
    blessed1 blink182 bluebird bluetick bubbles1 bulldogs buttercup butterfly california
    cameron1 carolina caroline catherine change_me changeme changeme1 changeme123 charlie1
    charlie123 charlotte cheesecake chelsea1 chocolate chocolate1 christian christina christine
    christopher cinderella cocacola computer computer1 corvette cowboys1 creative crystal1
    danielle december default1 default123 dolphins dragon123 dragonfly dreamer1 drowssap
    eagles123 einstein elephant elizabeth emmanuel engineer evergreen external facebook
    facebook1 falcon123 fernando firebird football football1 football123 forever1 forever21
    freedom1 friends1 friendship fuckyou1 fuckyou123 fuckyou2 garfield gateway1 geronimo
    ginger12 godzilla goldfish goodluck google123 gordon24 graphics greenday guest123 guinness
    guitar123 hannah123 hardcore harrypotter hello123 hello1234 hello12345 hellohello hellokitty
    helloworld highland hollywood hotmail1 iloveme1 iloveu123 iloveyou iloveyou! iloveyou1
    iloveyou12 iloveyou123 iloveyou2 infinity internet internet1 isabella iverson3 jackson5
    jasmine1 jeffrey1 jennifer jennifer1 jessica1 jonathan jordan23 joshua123 justin123 juventus
    kawasaki killer123 kimberly kingkong knight123 lakers24 lasvegas leonardo letmein! letmein1
    letmein123 letmeinn liverpool liverpool1 lol12345 lollipop love1234 lovelove lovely123
    loveme123 lovers123 loveyou1 madison1 manchester manutd123 marlboro maverick maximus1
    mercedes metallic metallica michael1 michelle michelle1 midnight military minecraft
    minnie123 mississippi mitchell monkey12 monkey123 monkey1234 montana1 motorola mountain
    mustang1 mustang123 mypassword mypassword1 myspace1 natalie1 nicholas nintendo nirvana1
    november oblivion ohmygod1 omg12345 operator p455w0rd p4ssw0rd p@55w0rd p@ssw0rd p@ssw0rd!
    p@ssw0rd1 p@ssw0rd123 p@ssword p@ssword1 pa$$w0rd pa$$word pa55w0rd pa55word pakistan
    paradise parola123 pass1234 pass12345 pass@123 pass@word1 passpass passport passw0rd
    passw0rd! passw0rd1 passw0rd123 password password! password. password0 password00 password01
    password1 password1! password10 password11 password12 password123 password123! password1234
    password12345 password2 password21 password22 password3 password4 password5 password69
    password7 password9 password99 password@1 password@123 passwordpassword passwort passwort1
    patricia peaches1 peanut123 pearljam pepper123 philips1 phoenix1 pineapple platinum playboy1
    pokemon1 pokemon123 porsche911 portugal precious princess princess1 princess12 princess123
    problem1 q1w2e3r4 q1w2e3r4t5 q1w2e3r4t5y6 qazqazqaz qazwsx12 qazwsx123 qazwsxed qazwsxedc
    qazwsxedc123 qazxsw21 qq123456 qqqqqqqq qwaszx12 qwe12345 qwe123456 qwe123qwe qweasd123
    qweasdzx qweasdzxc qweasdzxc123 qweqweqwe qwer1234 qwer12345 qwer4321 qwerqwer qwert123
    qwert1234 qwert12345 qwerty00 qwerty01 qwerty1! qwerty11 qwerty12 qwerty123 qwerty1234
    qwerty12345 qwerty123456 qwerty77 qwertyqwerty qwertyui qwertyuio qwertyuiop qwertyuiop1
    qwertyuiop123 qwertz123 qwertzui qwertzuiop raiders1 rainbow1 rangers1 rebecca1 redskins
    remember robinson ronaldo7 root1234 root12345 rootroot rush2112 samantha samsung1 samsung123
    sanchez1 saturday scarface scorpion secret12 secret123 secret1234 security september
    serenity services shadow12 shadow123 shithead simpsons slipknot slipknot1 snickers snowball
    snowboard softball something spiderman spiderman1 sponge12 spongebob starlight startrek
    starwars starwars1 steelers stephanie strawberry student1 summer12 summer123 summer2020
    summer2021 summer2022 summer2023 summer2024 summer2025 sunflower sunshine sunshine1
    sunshine123 superman superman1 superman123 supernova superstar supervisor sweetheart
    sweetie1 swimming tamerlan taylor123 telephone temp1234 tennessee test1234 test12345
    test123456 testing1 testing123 testpass testtest testtest1 therock1 thunder1 thunderbird
    tigger12 tinkerbell tottenham transfer trinity1 trustno1 twilight undertaker united123
    usa12345 user1234 user12345 usuckballz1 vacation valentina valentine vanessa1 veronica
    victoria victoria1 viking123 voyager1 warcraft warrior1 warriors welcome1 welcome12
    welcome123 welcome1234 welcome@123 westside whatever whatever1 william1 windows1 windows10
    winston1 winter123 winter2023 winter2024 winter2025 wolverine wordpass wrestling x1234567
    xxxxxxxx yankees1 yellow12 yourname z1234567 zaq12wsx zaq1xsw2 zaq1zaq1 zaqwsxcde zxc12345
    zxc123456 zxcasdqwe zxcasdqwe123 zxcv1234 zxcvbn123 zxcvbnm1 zxcvbnm123 zxcvzxcv zzzzzzzz
";

/// Returns whether the password is in the list, ignoring case.
pub fn is_common(password: &str) -> bool {
    let password = password.to_lowercase();
    COMMON.split_ascii_whitespace().any(|common| common == password)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PasswordRules;

    #[test]
    fn common_passwords_match_in_any_case() {
        for common in ["password", "PassWord", "12345678", "qwertyuiop", "P@ssw0rd", "iloveyou", "letmein1"] {
            assert!(is_common(common), "{common}");
        }
        for rare in ["correct horse", "battery staple", "", "passwo", "ord password"] {
            assert!(!is_common(rare), "{rare}");
        }
    }

    #[test]
    fn common_password_list_is_lower_case_and_covers_lower_minimum_lengths() {
        let all: Vec<_> = COMMON.split_ascii_whitespace().collect();
        assert!(all.len() > 800, "{}", all.len());
        assert!(all.iter().all(|common| common.to_lowercase() == *common));
        let default = PasswordRules::default().min_bytes;
        assert!(all.iter().filter(|common| common.len() < default).count() > 200);
        for short in ["1234", "12345", "123456", "qwerty", "abc123", "letmein", "111111", "dragon", "admin"] {
            assert!(is_common(short), "{short}");
        }
    }
}
