package tailrace.interop;
public final class Main { public static void main(String[] args) {} }
